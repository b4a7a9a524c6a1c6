#pragma once

// From records to state. Nothing else changes a SessionState.

#include <span>

#include "domain/record.h"
#include "domain/state.h"

namespace rouse {

void fold(SessionState& state, const RecordView& record);

}  // namespace rouse
