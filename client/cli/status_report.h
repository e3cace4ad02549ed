#ifndef PIPESTAGE_CLIENT_CLI_STATUS_REPORT_H_
#define PIPESTAGE_CLIENT_CLI_STATUS_REPORT_H_

#include <string>

#include "proto/status_service.pb.h"

namespace pipestage {

// What the service is doing, for people.
std::string StatusText(const v1::Status& status);

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_STATUS_REPORT_H_
