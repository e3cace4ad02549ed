#ifndef PIPESTAGE_CLIENT_CLI_ARGUMENTS_H_
#define PIPESTAGE_CLIENT_CLI_ARGUMENTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/pipeline_service.pb.h"

namespace pipestage {

// "NAME" or "NAME@VERSION". InvalidArgument if a part is empty.
absl::StatusOr<v1::ModelRef> ParseModelRef(absl::string_view text);
// "NAME" or "NAME@VERSION".
std::string FormatModelRef(const v1::ModelRef& model);

// "NAME=FILE". InvalidArgument if a part is empty.
struct NamedFile {
  std::string name;
  std::string file;
};
absl::StatusOr<NamedFile> ParseNamedFile(absl::string_view text);

// For CLI11's check(): "" if the parser takes `text`, otherwise why not.
std::string CheckModelRef(const std::string& text);
std::string CheckNamedFile(const std::string& text);

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_ARGUMENTS_H_
