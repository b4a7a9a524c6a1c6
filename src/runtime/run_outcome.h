#pragma once

// What came of a request, for whoever waits for it: the outcome of the run that it was about, or of
// the one that took its place.

#include <stop_token>

#include "runtime/run_driver.h"

namespace rouse {

struct AskedRun {
    SessionId session;
    RunId run;
    Seq seq = 0;          // of the last record of the request
    bool queued = false;  // a message that this run does not read, but a later one
};

// When the run has ended or parked. Of a queued message: the run that reads it. Of a run that was
// interrupted: the one that goes on from there, if somebody has let it or is about to. Nothing when
// the time is over, or whoever asks has `gone`, or nobody is about to read the message.
//   not_found  session_gone: it was deleted meanwhile
Task<Result<SharedReport>> wait_for_outcome(RunDriver& driver, Store& store, AskedRun asked,
                                            Milliseconds time, std::stop_token gone);

}  // namespace rouse
