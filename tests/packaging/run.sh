#!/usr/bin/env bash
# run.sh BUILD_DIR CONSUMER_DIR
set -euo pipefail
build=$1
consumer=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"  # an installed tree may be moved
cp -r "$consumer" "$work/consumer"
cd "$work"

links_shared() { readelf -d "$1" | grep -q 'NEEDED.*libsplitq\.so'; }
fail() { echo "packaging: $*" >&2; exit 1; }

for kind in static shared; do
  echo "== find_package, $kind"
  cmake -S consumer -B "$kind" -DSPLITQ_KIND=$kind -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" >"$kind.log" \
    || { cat "$kind.log"; fail "configuring with find_package, $kind"; }
  cmake --build "$kind"
  if links_shared "$kind/consumer"; then linked=shared; else linked=static; fi
  [ $linked = $kind ] || fail "the $kind consumer was linked $linked"
  "$kind/consumer"
done
! cmake -S consumer -B none -DSPLITQ_KIND=both -DCMAKE_PREFIX_PATH="$work/prefix" >none.log 2>&1 \
  || fail "find_package took a component that does not exist"
grep -q "may be static or shared" none.log || { cat none.log; fail "a wrong component got no reason"; }

PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name splitq.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir splitq)
echo "== pkg-config, shared"
g++ -std=c++20 consumer/main.cpp $(pkg-config --cflags --libs splitq) -Wl,-rpath,"$libdir" -o pc_shared
links_shared pc_shared || fail "pkg-config did not link the shared library"
./pc_shared
echo "== pkg-config --static"
g++ -std=c++20 consumer/main.cpp $(pkg-config --cflags splitq) \
  $(pkg-config --static --libs splitq | sed 's/-lsplitq/-l:libsplitq.a/') -o pc_static
! links_shared pc_static || fail "the static consumer was linked to the shared library"
./pc_static

echo "== the shared library shows splitq's names alone"
foreign=$(nm -DC --defined-only "$libdir/libsplitq.so" | cut -d' ' -f3- | grep -v 'splitq' || true)
[ -z "$foreign" ] || fail "libsplitq.so shows: $foreign"

if [ -x "$work/prefix/bin/splitq" ]; then
  echo "== the installed tool"
  "$work/prefix/bin/splitq" --version
fi
