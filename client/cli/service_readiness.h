#ifndef PIPESTAGE_CLIENT_CLI_SERVICE_READINESS_H_
#define PIPESTAGE_CLIENT_CLI_SERVICE_READINESS_H_

#include <string>
#include <vector>

#include "proto/status_service.pb.h"

namespace pipestage {

// What the service waits for before it answers calls to `models` (NAME or
// NAME@VERSION each); "" if nothing.
std::string WhatServiceWaitsFor(const v1::Status& status,
                                const std::vector<std::string>& models);

// The same, asking at `address` for at most a second.
std::string LookAtService(const std::string& address,
                          const std::vector<std::string>& models);

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_CLI_SERVICE_READINESS_H_
