#ifndef PIPESTAGE_COORDINATOR_MODEL_DESCRIPTION_H_
#define PIPESTAGE_COORDINATOR_MODEL_DESCRIPTION_H_

#include "package/model_package.h"
#include "proto/model_service.pb.h"

namespace pipestage {

// What can be told of a package from its contract alone: everything but state,
// placement and workers.
v1::Model DescribeModel(const ModelPackage& package);

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_MODEL_DESCRIPTION_H_
