#ifndef PIPESTAGE_COORDINATOR_FIRST_IDS_H_
#define PIPESTAGE_COORDINATOR_FIRST_IDS_H_

#include <cstdint>

#include "base/ids.h"

namespace pipestage {

// The number before the first id that a coordinator of this epoch gives to
// calls and requests. A worker that was busy while its coordinator was started
// again may still answer the old one's: with numbers of its own, the new one
// does not take the answer for one to its own question.
//
// An epoch is in milliseconds; a coordinator gives fewer than 2^20 ids in one.
inline int64_t IdBeforeFirst(Epoch epoch) { return epoch.value() << 20; }

}  // namespace pipestage

#endif  // PIPESTAGE_COORDINATOR_FIRST_IDS_H_
