#!/usr/bin/env bash
# Installs a build, moves it elsewhere and uses it as a stranger would: the program runs, and examples/embed is
# configured, compiled and run against it. install_test.sh SOURCE_DIR BUILD_DIR CXX
set -euo pipefail
source=$1 build=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
version=$("$work/moved/bin/penstock" --version | head -n 1)
expected=$(sed -n 's/^project(penstock VERSION \([0-9.]*\) .*/\1/p' "$source/CMakeLists.txt")
if [ "$version" != "$expected" ]; then
  echo "the installed program says it is \"$version\", not \"$expected\"" >&2
  exit 1
fi
diff -r "$source/include" "$work/moved/include"
if grep -rlF -e "$source" -e "$work/first" --include='*.h' --include='*.cmake' "$work/moved"; then
  echo "the files above name folders of the build" >&2
  exit 1
fi

cmake -S "$source/examples/embed" -B "$work/embed" -G "${CMAKE_GENERATOR:-Ninja}" --log-level=WARNING \
  -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
cmake --build "$work/embed"
cmake -DPROGRAM="$work/embed/embed" -DSOURCE="$source/examples/embed/main.cpp" -P "$source/examples/check_output.cmake"
