#ifndef PIPESTAGE_PACKAGE_CONTRACT_PARSER_H_
#define PIPESTAGE_PACKAGE_CONTRACT_PARSER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "package/contract.h"
#include "package/json_place.h"

namespace pipestage {

// Internal to the library: reads a contract, checking each value by itself.
// What the values have to do with each other is contract_rules.h's.
absl::StatusOr<PackageContract> ReadContract(const JsonPlace& document);

// Its parts.
absl::StatusOr<TensorContract> ReadTensor(const JsonPlace& place);
absl::StatusOr<StageContract> ReadStage(const JsonPlace& place);
absl::StatusOr<LossContract> ReadLoss(const JsonPlace& place);

// The name of a tensor or module.
absl::StatusOr<std::string> ReadIdentifier(const JsonPlace& place);

// That `path` stays beneath the package: relative, without "..". The error is
// of `place`.
absl::Status CheckFileName(const JsonPlace& place, absl::string_view path);

// Reads every element of the list at `place` with `read`.
template <typename T>
absl::StatusOr<std::vector<T>> ReadList(
    const JsonPlace& place, absl::StatusOr<T> (*read)(const JsonPlace&)) {
  PIPESTAGE_ASSIGN_OR_RETURN(const auto elements, place.Elements());
  std::vector<T> list;
  for (const JsonPlace& element : elements) {
    PIPESTAGE_ASSIGN_OR_RETURN(T value, read(element));
    list.push_back(std::move(value));
  }
  return list;
}

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_CONTRACT_PARSER_H_
