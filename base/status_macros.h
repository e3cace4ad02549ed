#ifndef PIPESTAGE_BASE_STATUS_MACROS_H_
#define PIPESTAGE_BASE_STATUS_MACROS_H_

// PIPESTAGE_RETURN_IF_ERROR and PIPESTAGE_ASSIGN_OR_RETURN: the shape of
// today's absl/status/status_macros.h, which Debian's Abseil (20220623) lacks.

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function if `expr`, an absl::Status, is not OK.
#define PIPESTAGE_RETURN_IF_ERROR(expr)                                     \
  do {                                                                      \
    if (::absl::Status pipestage_status = (expr); !pipestage_status.ok()) { \
      return pipestage_status;                                              \
    }                                                                       \
  } while (false)

// Assigns the value of `expr`, an absl::StatusOr, to `lhs` (which may declare a
// variable), or returns its status from the enclosing function.
#define PIPESTAGE_ASSIGN_OR_RETURN(lhs, expr) \
  PIPESTAGE_ASSIGN_OR_RETURN_IMPL(            \
      PIPESTAGE_STATUS_CONCAT(pipestage_statusor_, __LINE__), lhs, expr)

#define PIPESTAGE_ASSIGN_OR_RETURN_IMPL(statusor, lhs, expr) \
  auto statusor = (expr);                                    \
  if (!statusor.ok()) return std::move(statusor).status();   \
  lhs = *std::move(statusor)

#define PIPESTAGE_STATUS_CONCAT(a, b) PIPESTAGE_STATUS_CONCAT_IMPL(a, b)
#define PIPESTAGE_STATUS_CONCAT_IMPL(a, b) a##b

#endif  // PIPESTAGE_BASE_STATUS_MACROS_H_
