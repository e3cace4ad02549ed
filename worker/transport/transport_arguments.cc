#include "worker/transport/transport_arguments.h"

#include "absl/strings/str_cat.h"

namespace pipestage {
namespace {

template <typename Part>
absl::Status CheckHost(absl::string_view backend,
                       absl::Span<const Part> parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].device == DeviceKind::kHost) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("part ", i, " is in device memory; backend ", backend,
                     " carries host memory only"));
  }
  return absl::OkStatus();
}

template <typename Part>
size_t Total(absl::Span<const Part> parts) {
  size_t total = 0;
  for (const Part& part : parts) total += part.size;
  return total;
}

}  // namespace

absl::Status CheckCommunicatorOptions(const CommunicatorOptions& options) {
  if (options.rank.value() < 0 || options.rank.value() >= options.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank.value(),
                     " is not one of a group of size ", options.size));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "timeout ", absl::FormatDuration(options.timeout), " is not positive"));
  }
  if (options.prefix.empty()) {
    return absl::InvalidArgumentError("the rendezvous prefix is empty");
  }
  if (options.rendezvous == nullptr) {
    return absl::InvalidArgumentError("there is no rendezvous");
  }
  if (options.network_interface.empty() &&
      (options.host.empty() || options.host == "0.0.0.0" ||
       options.host == "::")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "host \"", options.host, "\" is not one address that peers can reach"));
  }
  return absl::OkStatus();
}

absl::Status CheckPeer(Rank self, Rank peer, int size) {
  if (peer.value() >= 0 && peer.value() < size && peer != self) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", peer.value(), " is not a peer of rank ",
                   self.value(), " in a group of size ", size));
}

absl::Status CheckHostParts(absl::string_view backend,
                            absl::Span<const ConstPart> parts) {
  return CheckHost(backend, parts);
}
absl::Status CheckHostParts(absl::string_view backend,
                            absl::Span<const MutablePart> parts) {
  return CheckHost(backend, parts);
}

size_t TotalBytes(absl::Span<const ConstPart> parts) { return Total(parts); }
size_t TotalBytes(absl::Span<const MutablePart> parts) { return Total(parts); }

absl::Status CheckWholeElements(size_t bytes, DType dtype) {
  if (bytes % ElementSize(dtype) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      bytes, " bytes are not whole elements of ", DTypeName(dtype)));
}

absl::Status CheckAllGatherSizes(size_t in, size_t out, int size) {
  if (out == in * size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("all-gather of ", in, " bytes from ", size, " ranks into ",
                   out, " bytes"));
}

absl::Status CheckReduceScatterSizes(size_t in, size_t out, int size) {
  if (in == out * size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("reduce-scatter of ", in, " bytes over ", size,
                   " ranks into ", out, " bytes"));
}

absl::Status PeerLostError(Rank peer, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("rank ", peer.value(), " is gone: ", why));
}

absl::Status PeerTimeoutError(Rank peer, absl::string_view what,
                              absl::Duration timeout) {
  return absl::DeadlineExceededError(
      absl::StrCat(what, " rank ", peer.value(), " was not done within ",
                   absl::FormatDuration(timeout)));
}

}  // namespace pipestage
