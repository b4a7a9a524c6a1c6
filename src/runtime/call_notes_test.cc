#include "runtime/call_notes.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace rouse {
namespace {

using namespace std::chrono_literals;

constexpr Timestamp kNoon{std::chrono::hours(12)};

// A call that a worker holds until noon, at 10 per cent.
std::shared_ptr<const SessionState> a_session() {
    PendingCall call;
    call.pending_id = PendingId("pnd_1");
    call.status = PendingStatus::processing;
    call.worker = "w";
    call.lease_until = kNoon;
    call.progress.percent = 10;
    auto state = std::make_shared<SessionState>();
    state->pending.push_back(std::move(call));
    return state;
}

Progress percent(int number) {
    Progress progress;
    progress.percent = number;
    return progress;
}

const PendingId kCall("pnd_1");

TEST(CallNotesTest, AStateThatNothingWasSaidOfIsTheSame) {
    CallNotes notes;
    notes.renew(PendingId("pnd_2"), kNoon, kNoon + 1h);
    const auto state = a_session();
    EXPECT_EQ(notes.over(state), state);
}

TEST(CallNotesTest, ARenewalHoldsForTheLeaseThatItRenews) {
    CallNotes notes;
    notes.renew(kCall, kNoon, kNoon + 1h);
    const auto state = a_session();
    EXPECT_EQ(notes.over(state)->pending[0].lease_until, kNoon + 1h);
    EXPECT_EQ(state->pending[0].lease_until, kNoon) << "the log's state is not touched";

    SessionState another = *state;  // claimed by somebody else since
    another.pending[0].lease_until = kNoon + 1min;
    notes.apply_to(another);
    EXPECT_EQ(another.pending[0].lease_until, kNoon + 1min);

    SessionState released = *state;
    released.pending[0].lease_until.reset();
    notes.apply_to(released);
    EXPECT_FALSE(released.pending[0].lease_until);
}

TEST(CallNotesTest, ALeaseThatIsWrittenAnewIsAnother) {
    CallNotes notes;
    notes.renew(kCall, kNoon, kNoon + 1h);
    notes.forget_lease(kCall);  // somebody's, until the same moment
    EXPECT_EQ(notes.over(a_session())->pending[0].lease_until, kNoon);
}

TEST(CallNotesTest, TellsWhatTheLogDoesNotHave) {
    CallNotes notes;
    EXPECT_FALSE(notes.unrecorded(a_session()->pending[0]));
    notes.report(kCall, percent(10), percent(20));
    EXPECT_EQ(notes.unrecorded(a_session()->pending[0]), percent(20));
    notes.recorded(kCall, kNoon);
    EXPECT_FALSE(notes.unrecorded(a_session()->pending[0]));
}

TEST(CallNotesTest, ProgressIsShownUntilTheLogHasMore) {
    CallNotes notes;
    notes.report(kCall, percent(10), percent(20));
    EXPECT_EQ(notes.over(a_session())->pending[0].progress, percent(20));
    SessionState later = *a_session();
    later.pending[0].progress = percent(30);
    notes.apply_to(later);
    EXPECT_EQ(later.pending[0].progress, percent(30));
    notes.recorded(kCall, kNoon);
    EXPECT_EQ(notes.over(a_session())->pending[0].progress, percent(10));
}

TEST(CallNotesTest, TheLogGetsAReportNowAndThen) {
    CallNotes notes;
    EXPECT_FALSE(notes.was_recorded_lately(kCall, kNoon)) << "the first one";
    notes.recorded(kCall, kNoon);
    EXPECT_TRUE(notes.was_recorded_lately(kCall, kNoon + limits::kProgressRecordedEvery - 1ms));
    EXPECT_FALSE(notes.was_recorded_lately(kCall, kNoon + limits::kProgressRecordedEvery));
    EXPECT_FALSE(notes.was_recorded_lately(kCall, kNoon - 1h)) << "the clock went back";
}

TEST(CallNotesTest, WhatHasEndedIsForgotten) {
    CallNotes notes;
    notes.renew(kCall, kNoon, kNoon + 1h);
    notes.report(kCall, percent(10), percent(20));
    SessionState ended = *a_session();
    ended.pending[0].status = PendingStatus::completed;
    notes.apply_to(ended);
    EXPECT_EQ(ended.pending[0].progress, percent(10));
    notes.forget(kCall);
    EXPECT_EQ(notes.size(), 0U);
    EXPECT_EQ(notes.over(a_session())->pending[0].lease_until, kNoon);
}

}  // namespace
}  // namespace rouse
