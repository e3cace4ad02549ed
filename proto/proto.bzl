"""C++ from .proto files with Debian's protoc and gRPC plugin."""

def cc_proto(name, src, deps = [], grpc = False, visibility = None):
    """A cc_library of the messages in `src`; with grpc, also its services.

    Args:
      name: of the library.
      src: one .proto file of this package.
      deps: cc_proto libraries that `src` imports.
      grpc: whether `src` declares services.
      visibility: of the library.
    """
    stem = src[:-len(".proto")]
    outs = [stem + ".pb.h", stem + ".pb.cc"]
    flags = "--cpp_out=$(RULEDIR)/.."
    if grpc:
        outs += [stem + ".grpc.pb.h", stem + ".grpc.pb.cc"]
        flags += " --grpc_out=$(RULEDIR)/.. --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin"
    native.genrule(
        name = name + "_gen",
        srcs = [src] + [d + "_src" for d in deps],
        outs = outs,
        cmd = "protoc -I. " + flags + " $(location %s)" % src,
    )
    native.filegroup(name = name + "_src", srcs = [src] + [d + "_src" for d in deps])
    native.cc_library(
        name = name,
        srcs = [o for o in outs if o.endswith(".cc")],
        hdrs = [o for o in outs if o.endswith(".h")],
        visibility = visibility,
        deps = deps + ["//third_party:grpc" if grpc else "//third_party:protobuf"],
    )
