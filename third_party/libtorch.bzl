"""LibTorch, CUDA and NCCL as they lie in the PyPI wheels of the project's venv."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

# No public target outside //worker may depend on these: see //third_party:BUILD.bazel.
cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    defines = ["USE_C10D_GLOO", "USE_C10D_NCCL", "USE_CUDA"],
    includes = [
        "include",
        "include/torch/csrc/api/include",
    ],
)

cc_library(
    name = "cuda_headers",
    hdrs = glob(["nvidia/cu13/include/**", "nvidia/nccl/include/**"]),
    includes = [
        "nvidia/cu13/include",
        "nvidia/nccl/include",
    ],
)

# The venv's interpreter, for programs that make test data with the same torch.
exports_files(["python"])
"""

# The wheel brings the headers of other versions of libraries that we use ourselves:
# a file that saw both would mix them. Debian's serve LibTorch's headers as well.
_FOREIGN_HEADERS = ["fmt", "google"]

def _impl(ctx):
    venv = ctx.os.environ.get("PIPESTAGE_VENV", "")
    if not venv:
        fail("PIPESTAGE_VENV is not set: run ./dev setup, which writes .bazelrc.user")
    packages = ctx.path(venv + "/lib/python3.11/site-packages")
    for part in ["torch", "nvidia"]:
        if not packages.get_child(part).exists:
            fail("%s has no %s: run ./dev setup" % (packages, part))
    ctx.symlink(packages.get_child("nvidia"), "nvidia")
    for child in packages.get_child("torch").get_child("include").readdir():
        if child.basename not in _FOREIGN_HEADERS:
            ctx.symlink(child, "include/" + child.basename)

    # The version is part of the wrapper so that what it makes is made anew when
    # the wheel changes.
    version = ctx.read(packages.get_child("torch").get_child("version.py"))
    ctx.file("python", "\n".join(
        ["#!/bin/bash"] +
        ["# " + line for line in version.splitlines()] +
        ['exec "%s/bin/python" "$@"' % venv, ""],
    ), executable = True)
    site = str(packages)
    lib_dirs = [
        site + "/torch/lib",
        site + "/nvidia/cu13/lib",
        site + "/nvidia/nccl/lib",
        site + "/nvidia/cudnn/lib",
        site + "/nvidia/cusparselt/lib",
        site + "/nvidia/nvshmem/lib",
    ]
    link = ["-L%s" % d for d in lib_dirs] + ["-Wl,-rpath,%s" % d for d in lib_dirs]
    link += ["-Wl,-rpath-link,%s" % d for d in lib_dirs]
    ctx.file("BUILD.bazel", _BUILD + """
cc_library(
    name = "libtorch",
    linkopts = %s + ["-ltorch_cpu", "-lc10", "-lfmt"],
    deps = [":headers"],
)

# The CUDA half: kernels register themselves when torch_cuda is loaded, so it must
# be kept although no symbol of it is named by a CPU-only object.
cc_library(
    name = "libtorch_cuda",
    linkopts = %s + ["-Wl,--no-as-needed", "-ltorch_cuda", "-lc10_cuda", "-l:libnccl.so.2", "-l:libcudart.so.13", "-Wl,--as-needed"],
    deps = [":cuda_headers", ":libtorch"],
)
""" % (repr(link), repr(link)))

libtorch_from_venv = repository_rule(
    implementation = _impl,
    environ = ["PIPESTAGE_VENV"],
    local = True,
    doc = "Describes the torch wheel in $PIPESTAGE_VENV; downloads nothing.",
)
