#!/usr/bin/env bash
# Installs a build, moves it elsewhere and uses it as a stranger would: the program runs; the installed examples are
# compiled and run, those with a CMakeLists.txt by GCC and by Clang where they are, the others by pkg-config's flags;
# programs elsewhere find the modules; find_package says what is missing; libraries show no names but
# ours. With `shared` it is a build of shared libraries, made beside BUILD_DIR, that is installed, and made Debian
# packages of.
# install_test.sh SOURCE_DIR BUILD_DIR [shared]
set -euo pipefail
source=$1 build=$2 flavour=${3:-static}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "$1" >&2
  exit 1
}

if [ "$flavour" = shared ]; then
  launcher=()
  if command -v ccache >/dev/null; then
    # As tools/build.sh: objects of the static libraries serve, since they are the same.
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1
  fi
  cmake -S "$source" -B "$build/../release_shared" -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 -DBUILD_SHARED_LIBS=ON -DPENSTOCK_BUILD_TOOLS=ON \
    -DPENSTOCK_BUILD_EXAMPLES=OFF -DPENSTOCK_CUDA=OFF "${launcher[@]}" >/dev/null
  build=$build/../release_shared
  cmake --build "$build" -j 2 >"$work/log" || fail "$(cat "$work/log")"
fi
cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
version=$("$work/moved/bin/penstock" --version)
version=${version%%$'\n'*}
expected=$(sed -n 's/^project(penstock VERSION \([0-9.]*\) .*/\1/p' "$source/CMakeLists.txt")
[ "$version" = "$expected" ] || fail "the installed program says it is \"$version\", not \"$expected\""
grep -q '^\.B .*threads' "$work/moved/share/man/man1/penstock-profile.1" || fail "penstock-profile(1) says nothing of threads"
diff -r -x internal "$source/include" "$work/moved/include"
[ ! -e "$work/moved/include/penstock/internal" ] || fail "headers are installed that no user needs"
if grep -rlF -e "$source" -e "$work/first" --include='*.h' --include='*.cmake' --include='*.pc' "$work/moved"; then
  fail "the files above name folders of the build"
fi
if grep -rnE 'dnnl|omp\.h|#pragma omp' "$work/moved/include"; then
  fail "the headers above name oneDNN or OpenMP"
fi

compilers=() known=()
for compiler in g++-12 clang++-14 g++ clang++; do
  command -v "$compiler" >/dev/null || continue
  # The same one by another name counts once. It is called by that name: clang++ is a link to clang, which is for C.
  path=$(readlink -f "$(command -v "$compiler")")
  case " ${known[*]} " in *" $path "*) ;; *) known+=("$path") compilers+=("$compiler") ;; esac
done
for compiler in "${compilers[@]}"; do
  folder=$work/$(basename "$compiler")
  for example in embed:embed/main.cpp embed_towers:own_model.cpp; do
    name=${example%:*}
    cmake -S "$work/moved/share/doc/penstock/examples/$name" -B "$folder/$name" -G "${CMAKE_GENERATOR:-Ninja}" --log-level=WARNING \
      -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_CXX_COMPILER="$compiler" \
      -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Werror" >/dev/null
    cmake --build "$folder/$name"
    cmake -DPROGRAM="$folder/$name/$name" -DSOURCE="$source/examples/${example#*:}" -P "$source/examples/check_output.cmake"
    echo "$flavour, $compiler: $name"
  done
  cmake -DPROGRAM="$folder/embed_towers/embed_columns" -DSOURCE="$source/examples/own_columns.cpp" \
    -P "$source/examples/check_output.cmake"
  # Who asks for no trainer links none.
  if ldd "$folder/embed/embed" | grep -E 'dnnl|gomp'; then fail "embed needs what only the trainer does"; fi
done

if [ "$flavour" = shared ]; then "$source/tests/house/symbols_test.sh" "$work"/moved/lib/libpenstock*.so.[0-9]*.*.*; fi

# Any C compiler, without CMake.
PKG_CONFIG_PATH=$work/moved/lib/pkgconfig
export PKG_CONFIG_PATH
read -ra flags < <(pkg-config --cflags --libs penstock-pipelines)
"${CC:-cc}" -std=c99 -Wall -Wextra -Wpedantic -Werror "$source/examples/c_batches.c" -o "$work/c_batches" "${flags[@]}" \
  -Wl,-rpath,"$work/moved/lib"
cmake -DPROGRAM="$work/c_batches" -DSOURCE="$source/examples/c_batches.c" -P "$source/examples/check_output.cmake"

# A program elsewhere opens the modules of the prefix, without LD_LIBRARY_PATH. Without the module it names the folders.
mkdir "$work/elsewhere"
cat >"$work/elsewhere/remote.cpp" <<'CPP'
#include <cstdio>

#include <penstock/penstock.h>

int main() try {
  penstock::text_lines({"http://127.0.0.1:9/lines.txt"});
} catch (const penstock::Error& error) {
  std::puts(error.what());
}
CPP
read -ra flags < <(pkg-config --cflags --libs penstock)
case " ${flags[*]} " in *" -std=c++20 "*) ;; *) fail "penstock.pc does not ask for C++20: ${flags[*]}" ;; esac
if [ "$flavour" = shared ]; then flags+=("-Wl,-rpath,$work/moved/lib"); fi
for example in "$work/moved/share/doc/penstock/examples"/*.cpp; do
  name=$(basename "$example" .cpp)
  case $name in own_model | own_columns) continue ;; esac  # are built above, with the trainer
  # A static library is compiled into each, which takes seconds.
  [ "$flavour" = shared ] || [ "$name" = own_source ] || continue
  "${CXX:-c++}" -O1 "$example" -o "$work/elsewhere/$name" "${flags[@]}"
  [ "$name" = report ] || cmake -DPROGRAM="$work/elsewhere/$name" -DSOURCE="$example" -P "$source/examples/check_output.cmake"
done
"${CXX:-c++}" "$work/elsewhere/remote.cpp" -o "$work/elsewhere/remote" "${flags[@]}"
module=$work/moved/lib/libpenstock_remote.so
if [ -e "$module" ]; then
  said=$(env -u LD_LIBRARY_PATH "$work/elsewhere/remote")
  case $said in *"can't be opened"* | "") fail "the module was not found: $said" ;; esac
  mv "$module" "$module.away"
  said=$(env -u LD_LIBRARY_PATH "$work/elsewhere/remote")
  case $said in *"libpenstock_remote.so can't be opened: "*"searched "*"$work/elsewhere/"*) ;;
  *) fail "the folders are not named: $said" ;; esac
  mv "$module.away" "$module"
fi
for standard in c++14 c++17; do
  said=$("${CXX:-c++}" -std=$standard -I"$work/moved/include" -c "$work/elsewhere/remote.cpp" -o /dev/null 2>&1) &&
    fail "the headers compile as $standard"
  [ "$(grep -c 'error:' <<<"$said")" = 2 ] || fail "an old compiler gets more than it needs: $said"
  grep -q 'Penstock needs C++20: compile with -std=c++20' <<<"$said" || fail "$said"
done

mkdir "$work/components"
cat >"$work/components/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(components LANGUAGES CXX)
find_package(penstock 0.1 COMPONENTS ${wanted})
message(STATUS "found: ${penstock_FOUND}")
CMAKE
# found YES_OR_NO TEXT CMAKE_FLAGS...: a configuration that continues, and says so.
found() {
  local yes=$1 text=$2 said
  shift 2
  said=$(cmake -S "$work/components" -B "$work/components/build" -DCMAKE_PREFIX_PATH="$work/moved" "$@" 2>&1 | tr -s '\n ' ' ') ||
    fail "'$*' ends the configuration: $said"
  case $said in *"$text"*"found: $yes "*) ;; *) fail "'$*': expected \"$text\" and found: $yes, got: $said" ;; esac
}
found 1 "" -Dwanted=core
found 1 "" "-Dwanted=core;images;staging;pipelines;towers"
found 0 "the component sound is not known; there are core" "-Dwanted=core;sound"
if [ "$flavour" = static ]; then
  found 0 "needs what was not found: PNG" -Dwanted=core -DCMAKE_DISABLE_FIND_PACKAGE_PNG=ON
fi
sed -i 's/component(pipelines "ON"/component(pipelines "OFF"/' "$work/moved/lib/cmake/penstock/penstock-config.cmake"
found 0 "the component pipelines was not built" -Dwanted=pipelines -DCMAKE_DISABLE_FIND_PACKAGE_PNG=OFF

[ "$flavour" = shared ] || exit 0
(cd "$build" && cpack -B "$work/debs" >"$work/log" 2>&1) || fail "$(cat "$work/log")"
for package in libpenstock0.1 libpenstock-dev penstock; do
  deb=$(find "$work/debs" -maxdepth 1 -name "${package}_*.deb")
  [ -n "$deb" ] || fail "there is no package $package"
  dpkg-deb -x "$deb" "$work/root"
  dpkg-deb -c "$deb" | awk '$6 !~ /\/$/ { print $6 }' >>"$work/files"
  [ "$package" = libpenstock0.1 ] || dpkg-deb -f "$deb" Depends | grep -q 'libpenstock0.1' ||
    fail "$package does not need libpenstock0.1"
done
if sort "$work/files" | uniq -d | grep .; then fail "the files above are in two packages"; fi
for file in bin/penstock share/man/man1/penstock.1 lib/libpenstock.so.0.1 lib/libpenstock_pipelines.so.0.1 lib/libpenstock.so \
  include/penstock/c.h lib/pkgconfig/penstock.pc lib/cmake/penstock/penstock-config.cmake; do
  [ -e "$work/root/usr/$file" ] || fail "no package has $file"
done
"$work/root/usr/bin/penstock" --version >/dev/null || fail "the packages' program does not run"
echo "packages: $(wc -l <"$work/files") files"
