"""Adds up the results of a `./dev test` run and prints "N passed, N failed".

Reads the test.xml files Bazel left for the targets named as arguments: every case of
gtest or of pytest counts once.
"""

import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree


def cases(path):
    """Yields (name, outcome) of every test case in a junit file."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        children = {child.tag for child in case}
        if children & {"failure", "error"}:
            yield name, "failed"
        elif "skipped" in children or case.get("result") == "skipped":
            yield name, "skipped"
        elif case.get("status") == "notrun":
            continue
        else:
            yield name, "passed"


def bazel_targets(patterns):
    query = ["bazel", "query", "--noshow_progress", f"tests({' + '.join(patterns)})"]
    out = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    return [line for line in out.splitlines() if line.startswith("//")]


def main(patterns):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    broken = []
    logs = pathlib.Path("bazel-testlogs")
    for label in bazel_targets(patterns):
        path = logs / label[2:].replace(":", "/") / "test.xml"
        if not path.exists():
            counts["failed"] += 1
            broken.append(f"{label}: no result; it did not build or did not run")
            continue
        for name, outcome in cases(path):
            counts[outcome] += 1
            if outcome == "failed":
                broken.append(f"{label}: {name}")
    for line in broken:
        print(f"FAILED {line}")
    if counts["skipped"]:
        print(f"({counts['skipped']} skipped; each says why in its log)")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
