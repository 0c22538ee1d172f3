// Stands in for NVRTC: an "image" says which file and which type's instances a program was made of, for the driver beside
// it, which has all kernels.
#include <cstring>
#include <string>

#define API extern "C" __attribute__((visibility("default"))) int

namespace {
struct Program {
  std::string name, instance, image;
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
API nvrtcCreateProgram(void** program, const char* source, const char* name, int, const char* const*, const char* const*) {
  *program = new Program{name, instance_of(source), ""};
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
  if (p->instance.empty() || dot == std::string::npos) return COMPILATION;
  p->image = "standin " + p->name.substr(0, dot) + " " + p->instance + "\n";
  return SUCCESS;
}
API nvrtcGetProgramLogSize(void*, size_t* bytes) {
  *bytes = 1;
  return SUCCESS;
}
API nvrtcGetProgramLog(void*, char* log) {
  *log = 0;
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
