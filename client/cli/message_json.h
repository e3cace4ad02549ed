#ifndef PIPESTAGE_CLIENT_CLI_MESSAGE_JSON_H_
#define PIPESTAGE_CLIENT_CLI_MESSAGE_JSON_H_

#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace pipestage {

using Json = nlohmann::ordered_json;

// A finite number as it is; null for NaN and infinities, which JSON lacks.
Json FiniteOrNull(double value);

// A message for scripts: fields by their names in the .proto file, every one
// there (a sub-message or optional field that is unset is null), 64-bit
// integers as numbers, enums by name. Bytes are left out.
Json MessageToJson(const google::protobuf::Message& message);

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_MESSAGE_JSON_H_
