#include "coordinator/worker_error.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/error_info.h"

namespace pipestage {

absl::Status AttributeToWorker(const Attachment& from,
                               const absl::Status& error) {
  absl::Status out(error.code(),
                   absl::StrCat(DescribeWorker(from.name, from.rank), ": ",
                                error.message()));
  error.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    out.SetPayload(url, payload);
    v1::ErrorInfo info;
    if (!info.ParseFromString(std::string(payload)) ||
        info.domain() != "pipestage") {
      return;
    }
    (*info.mutable_metadata())["worker"] = from.name;
    (*info.mutable_metadata())["rank"] = absl::StrCat(from.rank.value());
    out.SetPayload(url, absl::Cord(info.SerializeAsString()));
  });
  return out;
}

}  // namespace pipestage
