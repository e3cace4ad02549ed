#!/usr/bin/env bash
# Checks that no compiler makes: format, layering, and clang's thread-safety analysis
# (gcc ignores the annotations) over everything that does not include LibTorch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

query() { bazel query --noshow_progress --ui_event_filters=-info "$@"; }

failed=0
fail() { printf 'lint: %s\n' "$*" >&2; failed=1; }

echo "==> format"
git ls-files '*.cc' '*.h' | xargs clang-format-14 --dry-run -Werror || fail "run ./dev format"

echo "==> layering"
must_be_empty() {
  local found
  found="$(query "$2")"
  [ -z "$found" ] || fail "$1: $(echo $found)"
}
must_be_empty "LibTorch is linked by the worker only" \
  "somepath(//coordinator/... + //client/... + //schedule/... + //tensor/... + //package/... + //base/..., //third_party:libtorch)"
must_be_empty "the schedule knows no gRPC" "somepath(//schedule/..., //third_party:grpc)"
must_be_empty "a worker cannot compile plans" \
  "somepath(kind('cc_library|cc_binary', //worker/... except attr(testonly, 1, //worker/...)), //schedule:compiler)"
must_be_empty "coordinator and worker meet only in proto" \
  "somepath(//coordinator/..., //worker/...) + somepath(//worker/..., //coordinator/...)"
must_be_empty "the client includes neither of them" \
  "somepath(//client/..., //coordinator/... + //worker/...)"

echo "==> thread safety (clang)"
bazel build --noshow_progress //proto/... 2>/dev/null
targets="kind('cc_(library|binary|test) rule', //... except rdeps(//..., //third_party:libtorch))"
query "labels(srcs, $targets)" | grep -E '\.cc$' | grep -v '\.pb\.cc$' |
  sed 's|^//||; s|:|/|' | while read -r f; do [ -f "$f" ] && printf '%s\n' "$f"; done |
  xargs -P 2 -n 4 clang++-14 -std=c++20 -fsyntax-only -I. -Ibazel-bin \
    -DSPDLOG_COMPILED_LIB -DSPDLOG_SHARED_LIB -DSPDLOG_FMT_EXTERNAL \
    -Wthread-safety -Werror=thread-safety || fail "clang's thread-safety analysis"

[ "$failed" = 0 ] && echo "lint: clean"
exit "$failed"
