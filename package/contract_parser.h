#ifndef PIPESTAGE_PACKAGE_CONTRACT_PARSER_H_
#define PIPESTAGE_PACKAGE_CONTRACT_PARSER_H_

#include "absl/status/statusor.h"
#include "package/contract.h"
#include "package/json_place.h"

namespace pipestage {

// Internal to the library: reads a contract, checking each value by itself.
// What the values have to do with each other is contract_rules.h's.
absl::StatusOr<PackageContract> ReadContract(const JsonPlace& document);

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_CONTRACT_PARSER_H_
