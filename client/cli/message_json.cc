#include "client/cli/message_json.h"

#include <cmath>
#include <string>

#include "google/protobuf/descriptor.h"

namespace pipestage {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The value of `field`, or its element `i` where it is repeated (i >= 0).
Json ValueToJson(const Message& message, const FieldDescriptor* field, int i) {
  const Reflection& in = *message.GetReflection();
  const bool one = i < 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? in.GetBool(message, field)
                 : in.GetRepeatedBool(message, field, i);
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? in.GetInt32(message, field)
                 : in.GetRepeatedInt32(message, field, i);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? in.GetInt64(message, field)
                 : in.GetRepeatedInt64(message, field, i);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? in.GetUInt32(message, field)
                 : in.GetRepeatedUInt32(message, field, i);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? in.GetUInt64(message, field)
                 : in.GetRepeatedUInt64(message, field, i);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return FiniteOrNull(one ? in.GetDouble(message, field)
                              : in.GetRepeatedDouble(message, field, i));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return FiniteOrNull(one ? in.GetFloat(message, field)
                              : in.GetRepeatedFloat(message, field, i));
    case FieldDescriptor::CPPTYPE_ENUM:
      return (one ? in.GetEnum(message, field)
                  : in.GetRepeatedEnum(message, field, i))
          ->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return one ? in.GetString(message, field)
                 : in.GetRepeatedString(message, field, i);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageToJson(one ? in.GetMessage(message, field)
                               : in.GetRepeatedMessage(message, field, i));
  }
  return nullptr;
}

Json FieldToJson(const Message& message, const FieldDescriptor* field) {
  const Reflection& in = *message.GetReflection();
  if (field->is_repeated()) {
    Json values = Json::array();
    for (int i = 0; i < in.FieldSize(message, field); ++i) {
      values.push_back(ValueToJson(message, field, i));
    }
    return values;
  }
  if (field->has_presence() && !in.HasField(message, field)) return nullptr;
  return ValueToJson(message, field, -1);
}

}  // namespace

Json FiniteOrNull(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json MessageToJson(const Message& message) {
  Json json = Json::object();
  const google::protobuf::Descriptor& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    if (field->type() == FieldDescriptor::TYPE_BYTES) continue;
    json[field->name()] = FieldToJson(message, field);
  }
  return json;
}

}  // namespace pipestage
