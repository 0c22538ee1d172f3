# Line coverage, for scripts that source this: it takes the toolchain's llvm-tools, and a build of this workspace's crates of its own.
# shellcheck shell=bash

# From now on programs that are built count the lines that run.
begin_coverage() {
    tools="$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin"
    [[ -x "$tools/llvm-cov" ]] || rustup component add llvm-tools
    profiles="$(mktemp -d)"
    export RUSTC_WORKSPACE_WRAPPER="$PWD/scripts/support/rustc-coverage"
    export LLVM_PROFILE_FILE="$profiles/%p-%m.profraw"
}

# The part of a folder's lines that ran, in percent, by the programs that a log of cargo names.
coverage_of() {
    local folder="$1" log="$2" objects=() program
    "$tools/llvm-profdata" merge --sparse "$profiles"/*.profraw -o "$profiles/merged"
    while read -r program; do
        objects+=(--object "$program")
    done < <(sed -n 's/^ *Running .*(\(.*\))$/\1/p' "$log")
    "$tools/llvm-cov" export --format=lcov --instr-profile "$profiles/merged" "${objects[@]}" >"$profiles/lines"
    scripts/support/line-coverage "$folder" <"$profiles/lines"
}
