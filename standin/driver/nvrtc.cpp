// Stands in for NVRTC: an "image" says which file and which type's instances a program was made of, for the driver beside
// it, which has all kernels. Of a file that is not among them the image is a library that the C++ compiler makes; with
// STANDIN_INTERPRETS in the environment there is none, as if it could not be compiled.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

namespace {
struct Program {
  std::string name, source, instance;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string image, log;
};
// As NVRTC's results.
enum { SUCCESS = 0, INVALID_PROGRAM = 4, COMPILATION = 6 };

// The type whose instances the source asks for: `#define ONLY_f32(...) __VA_ARGS__`.
std::string instance_of(const std::string& source) {
  const size_t end = source.find("(...) __VA_ARGS__\n");
  const size_t begin = source.rfind("ONLY_", end);
  if (end == std::string::npos || begin == std::string::npos) return "";
  return source.substr(begin + 5, end - begin - 5);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Whether a program's headers are those that the compiler has read beforehand (STANDIN_HEADERS).
bool has_known_headers(const Program& program) {
  for (const auto& [name, text] : program.headers)
    if (contents(STANDIN_HEADERS + name) != text) return false;
  return true;
}

// What the C++ compiler makes of a program, or nothing, with what it says in the log.
void compile(Program& program) {
  char folder[] = "/tmp/standin-XXXXXX";
  if (!mkdtemp(folder)) return;
  const std::string at = std::string(folder) + "/", made = at + "made.so", log = at + "log";
  std::ofstream(at + program.name) << program.source;
  const bool is_known = has_known_headers(program);
  if (!is_known)
    for (const auto& [name, text] : program.headers) std::ofstream(at + name) << text;
  const std::string command = std::string(STANDIN_COMPILER) + " -shared -DSIMT_EMULATED -DSIMT_SUFFIX=_emulated -I" +
                              (is_known ? STANDIN_HEADERS : at) + " -o " + made + " " + at + program.name + " 2>" + log;
  const bool is_made = system(command.c_str()) == 0;
  if (is_made) {
    const std::string code = contents(made);
    program.image = "standin-code " + std::to_string(code.size()) + "\n" + code;
  }
  program.log = contents(log);
  for (const auto& header : program.headers) unlink((at + header.first).c_str());
  for (const std::string& path : {at + program.name, made, log}) unlink(path.c_str());
  rmdir(folder);
}
}  // namespace

API nvrtcVersion(int* major, int* minor) {
  *major = 0, *minor = 0;  // so that nothing of it is taken for NVIDIA's in a cache
  return SUCCESS;
}
API nvrtcGetNumSupportedArchs(int* count) {
  *count = 2;
  return SUCCESS;
}
API nvrtcGetSupportedArchs(int* numbers) {
  numbers[0] = 75, numbers[1] = 90;
  return SUCCESS;
}
API nvrtcCreateProgram(void** program, const char* source, const char* name, int count, const char* const* texts,
                       const char* const* names) {
  Program* made = new Program{name, source, instance_of(source), {}, "", ""};
  for (int n = 0; n < count; ++n) made->headers.emplace_back(names[n], texts[n]);
  *program = made;
  return SUCCESS;
}
API nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return SUCCESS;
}
API nvrtcCompileProgram(void* program, int, const char* const*) {
  Program* p = static_cast<Program*>(program);
  const size_t dot = p->name.rfind(".cu");
  if (dot == std::string::npos) return COMPILATION;
  if (p->instance.empty()) {
    if (!getenv("STANDIN_INTERPRETS")) compile(*p);
    return p->image.empty() ? COMPILATION : SUCCESS;
  }
  p->image = "standin " + p->name.substr(0, dot) + " " + p->instance + "\n";
  return SUCCESS;
}
API nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->log.size() + 1;
  return SUCCESS;
}
API nvrtcGetProgramLog(void* program, char* log) {
  const std::string& from = static_cast<Program*>(program)->log;
  memcpy(log, from.c_str(), from.size() + 1);
  return SUCCESS;
}
#define IMAGE(what)                                                                  \
  API nvrtcGet##what##Size(void* program, size_t* bytes) {                           \
    *bytes = static_cast<Program*>(program)->image.size() + 1;                       \
    return *bytes > 1 ? SUCCESS : INVALID_PROGRAM;                                   \
  }                                                                                  \
  API nvrtcGet##what(void* program, char* image) {                                   \
    const std::string& from = static_cast<Program*>(program)->image;                 \
    memcpy(image, from.c_str(), from.size() + 1);                                    \
    return SUCCESS;                                                                  \
  }
IMAGE(CUBIN) IMAGE(PTX)
extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int) { return "stand-in"; }
