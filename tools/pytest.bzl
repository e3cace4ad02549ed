"""Python test files as Bazel tests: one target a file, run anew only when what it needs changed."""

def pytest_files(srcs, data, tags = [], size = "medium"):
    """One test for each file of srcs, under the venv's pytest.

    They run one at a time, after the others: they start processes of their own and
    measure memory and time.

    Args:
      srcs: the test_*.py files.
      data: all that they read: modules, binaries, examples.
      tags: of the targets.
      size: as of any Bazel test; it bounds the time.
    """
    for src in srcs:
        native.sh_test(
            name = src.rpartition("/")[2][:-len(".py")],
            size = size,
            srcs = ["//tools:run_pytest.sh"],
            args = [native.package_name() + "/" + src],
            data = [src, "@libtorch//:python"] + data,
            tags = ["exclusive", "torch"] + tags,
        )
