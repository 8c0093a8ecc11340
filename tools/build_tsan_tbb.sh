#!/usr/bin/env bash
# Builds oneTBB from Debian's source package with ThreadSanitizer into build/onetbb-tsan, for the tsan preset. Debian's
# own library synchronises out of the sanitizer's sight, which makes correct programs look racy. Done once per version.
# Exits with 75 if the source could not be downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(dpkg-query -W -f '${Version}' libtbb-dev)
prefix=$PWD/build/onetbb-tsan
if [ "$(cat "$prefix/version" 2>/dev/null)" = "$version" ]; then
  echo "onetbb-tsan: $version is built"
  exit 0
fi

work=$PWD/build/onetbb-tsan-work
rm -rf "$work" "$prefix"
mkdir -p "$work"/{lists/partial,src}
# The source entries of the Debian mirrors that are configured anyway, in lists of our own: the system's stay untouched.
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# shellcheck disable=SC2016  # apt-get expands these
apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
  sort -u | sed "s|^|deb-src [signed-by=$keyring] |" >"$work/sources.list"
options=(-o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists"
  -o Dir::Cache::pkgcache="" -o Dir::Cache::srcpkgcache="" -o APT::Sandbox::User="" -o Acquire::Retries=3)
echo "onetbb-tsan: fetching the source of $version"
if ! apt-get "${options[@]}" update -qq || ! (cd "$work/src" && apt-get "${options[@]}" source -qq "onetbb=$version" >/dev/null); then
  echo "onetbb-tsan: the mirrors do not give the source of $version" >&2
  exit 75
fi

echo "onetbb-tsan: building"
if command -v ccache >/dev/null; then  # as in tools/build.sh
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_MAXSIZE=20G
fi
cmake -S "$work"/src/onetbb-*/ -B "$work/build" -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=None \
  -DCMAKE_CXX_FLAGS="-O1 -g1 -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan" -DCMAKE_INSTALL_PREFIX="$prefix" \
  -DCMAKE_INSTALL_LIBDIR=lib -DTBB_TEST=OFF -DTBB_STRICT=OFF -DTBBMALLOC_BUILD=OFF \
  -DTBB_DISABLE_HWLOC_AUTOMATIC_SEARCH=ON
cmake --build "$work/build"
cmake --install "$work/build" >/dev/null
echo "$version" >"$prefix/version"
rm -rf "$work"
echo "onetbb-tsan: done"
