#!/usr/bin/env bash
# run_pytest.sh FILE: runs one Python test file as a Bazel test, among its runfiles, so that
# what the target does not name is not there.
set -euo pipefail
export PYTHONPATH="$PWD/python" PYTHONDONTWRITEBYTECODE=1 HOME="${HOME:-/tmp}"
exec ../libtorch/python -m pytest -q -p no:cacheprovider --rootdir="$PWD" \
  --basetemp="$TEST_TMPDIR/pytest" --junitxml="$XML_OUTPUT_FILE" "$@"
