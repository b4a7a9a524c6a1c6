#include "domain/token_rules.h"

#include <gtest/gtest.h>

#include <array>

#include "domain/history.h"
#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::reason_of;
using testing::SessionDriver;
using namespace std::chrono_literals;

const Timestamp kNow = from_epoch_ms(1'767'225'600'000);
const Secret kSecret("the-secret");

// A parked session whose token is `status` and expires at `expires_at`; each part of the token's
// scope may be that of another session, run or wait.
struct Scope {
    bool session = true;
    bool run = true;
    bool wait = true;
    bool newest = true;  // the wait still names this token
};

SessionState parked(TokenStatus status, std::optional<Timestamp> expires_at, const Scope& scope) {
    SessionState state;
    state.id = SessionId("sess_1");
    state.updated_at = kNow - 1h;
    state.run = Run{};
    state.run->run_id = RunId("run_1");
    state.run->wait = Wait{WaitId("wait_1"), WaitKind::external, 4,
                           TokenId(scope.newest ? "rt_1" : "rt_2"), std::nullopt};
    Token token{TokenId("rt_1"),
                hash_of_secret(kSecret),
                RunId(scope.run ? "run_1" : "run_0"),
                WaitId(scope.wait ? "wait_1" : "wait_0"),
                WaitKind::external,
                expires_at,
                status,
                {}};
    // Another session's token is in another session's state.
    if (scope.session) state.tokens.push_back(std::move(token));
    return state;
}

std::string answer_of(const Result<void>& result) {
    return result ? "valid" : std::string(result.error().reason);
}

// S3-44, S3-45, S3-71: every status, secret, scope and time.
TEST(TokenRulesTest, ValidatesOnlyTheRightSecretInItsScopeBeforeItsEnd) {
    const std::array<std::optional<Timestamp>, 4> times = {std::nullopt, kNow + 1ms, kNow,
                                                           kNow - 1min};
    std::size_t cases = 0;
    for (const TokenStatus status :
         {TokenStatus::active, TokenStatus::consumed, TokenStatus::revoked, TokenStatus::expired})
        for (const bool right_secret : {true, false})
            for (unsigned bits = 0; bits < 16; ++bits)
                for (const std::optional<Timestamp>& expires_at : times) {
                    const Scope scope{(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0,
                                      (bits & 8U) != 0};
                    const SessionState state = parked(status, expires_at, scope);
                    const PresentedToken presented{TokenId("rt_1"),
                                                   right_secret ? kSecret : Secret("guess")};

                    std::string want = "valid";
                    if (!scope.run || !scope.wait || !scope.newest) want = "token_revoked";
                    if (expires_at && *expires_at <= kNow) want = "token_expired";
                    if (status == TokenStatus::expired) want = "token_expired";
                    if (status == TokenStatus::revoked) want = "token_revoked";
                    if (status == TokenStatus::consumed) want = "token_consumed";
                    if (!scope.session || !right_secret) want = "invalid_token";

                    ++cases;
                    EXPECT_EQ(answer_of(validate_token(state, presented, kNow)), want)
                        << to_string(status) << ", secret " << right_secret << ", scope " << bits
                        << ", expires " << (expires_at ? to_rfc3339(*expires_at) : "never");
                }
    EXPECT_EQ(cases, 4U * 2 * 16 * 4);
}

// T5: a stranger learns nothing from the answer.
TEST(TokenRulesTest, UnknownForeignAndWrongAreAnsweredWithTheSameBytes) {
    const SessionState state = parked(TokenStatus::active, std::nullopt, {});
    const SessionState foreign = parked(TokenStatus::active, std::nullopt, {.session = false});
    const Result<void> wrong = validate_token(state, {TokenId("rt_1"), Secret("guess")}, kNow);
    const Result<void> unknown = validate_token(state, {TokenId("rt_9"), kSecret}, kNow);
    const Result<void> other = validate_token(foreign, {TokenId("rt_1"), kSecret}, kNow);
    const Result<PresentedToken> malformed = parse_token_text("rt_1");
    ASSERT_TRUE(!wrong && !unknown && !other && !malformed);
    EXPECT_EQ(wrong.error(), unknown.error());
    EXPECT_EQ(wrong.error(), other.error());
    EXPECT_EQ(wrong.error(), malformed.error());
    EXPECT_EQ(wrong.error().kind, ErrorKind::denied);
}

TEST(TokenRulesTest, EndedTokensAreAPreconditionNotADenial) {
    for (const TokenStatus status :
         {TokenStatus::consumed, TokenStatus::revoked, TokenStatus::expired}) {
        const SessionState state = parked(status, std::nullopt, {});
        const Result<void> result = validate_token(state, {TokenId("rt_1"), kSecret}, kNow);
        ASSERT_FALSE(result) << to_string(status);
        EXPECT_EQ(result.error().kind, ErrorKind::precondition) << to_string(status);
    }
}

// S3-43: the log, the state and the snapshot hold the hash; the secret is nowhere.
TEST(TokenRulesTest, OnlyTheHashOfTheSecretIsStored) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    const std::string& secret = driver.tokens().back().secret.reveal();
    EXPECT_EQ(to_json(driver.state()).find(secret), std::string::npos);
    for (const Record& record : driver.log()) {
        EXPECT_EQ(render_body(record.body).find(secret), std::string::npos);
    }
    EXPECT_NE(to_json(driver.state()).find(hash_of_secret(driver.tokens().back().secret)),
              std::string::npos);
}

// S3-42: minted with the wait, in its scope, and expiring with it.
TEST(TokenRulesTest, IsMintedWithItsWaitAndExpiresWithIt) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 2h}});
    const Wait& wait = *driver.state().run->wait;
    ASSERT_EQ(driver.state().tokens.size(), 1U);
    const Token& token = driver.state().tokens[0];
    EXPECT_EQ(token.token_id, wait.resume_token_id);
    EXPECT_EQ(token.run_id, driver.state().run->run_id);
    EXPECT_EQ(token.wait_id, wait.wait_id);
    EXPECT_EQ(token.wait_kind, WaitKind::external);
    EXPECT_EQ(token.expires_at, wait.deadline_at);
    EXPECT_EQ(token.expires_at, driver.now() + 3h);
}

// ---- every way in which a wait ends, and what its token says then -----------------------------

struct EndCase {
    std::string name;
    Result<Records> (*end)(SessionDriver&);
    std::string reason;  // what the token answers afterwards
    std::string kind;    // the audit record, S3-25, S3-51
};

void PrintTo(const EndCase& c, std::ostream* out) {
    *out << c.name;
}

class TokenEndTest : public ::testing::TestWithParam<EndCase> {};

// S3-04 S3-56
TEST_P(TokenEndTest, LeavesARecordAndNeverValidatesAgain) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 1h}});
    const PresentedToken token = driver.tokens().back();
    EXPECT_TRUE(validate_token(driver.state(), token, driver.now()));
    const std::size_t before = driver.log().size();
    ASSERT_TRUE(driver.commit(GetParam().end(driver)));

    std::size_t audits = 0;
    for (std::size_t i = before; i < driver.log().size(); ++i) {
        const std::string_view kind = kind_of(driver.log()[i].body);
        if (kind.starts_with("token.") && kind != "token.minted") {
            EXPECT_EQ(kind, GetParam().kind);
            ++audits;
        }
    }
    EXPECT_EQ(audits, 1U);
    // W11: whatever the clock says, earlier or later.
    for (const Milliseconds jump : {Milliseconds(0), Milliseconds(-72h), Milliseconds(72h)}) {
        EXPECT_EQ(answer_of(validate_token(driver.state(), token, driver.now() + jump)),
                  GetParam().reason);
    }
    // A new run, and the next turn, do not change what became of it (S3-63).
    if (driver.state().deleted) return;
    if (driver.state().run_is_open()) driver.commit(driver.cancel(CancelMode::discard));
    driver.commit(driver.message());
    EXPECT_EQ(answer_of(validate_token(driver.state(), token, driver.now())), GetParam().reason);
    const std::optional<Token> past = find_past_token(driver.log(), token.token_id);
    ASSERT_TRUE(past);
    EXPECT_EQ("token_" + std::string(to_string(past->status)), GetParam().reason);
}

Result<Records> end_by_result(SessionDriver& d) {
    return d.settle(d.open_calls()[0].pending_id, text_result("done"));
}
Result<Records> end_by_token(SessionDriver& d) {
    return d.resume(d.tokens().back(), {{d.open_calls()[0].call_id, text_result("done")}});
}
Result<Records> end_by_expiry(SessionDriver& d) {
    d.clock().advance(1h);
    return d.due();
}
Result<Records> end_by_discard(SessionDriver& d) {
    return d.cancel(CancelMode::discard);
}
Result<Records> end_by_acknowledge(SessionDriver& d) {
    return d.cancel(CancelMode::acknowledge);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, TokenEndTest,
    ::testing::Values(
        EndCase{"Result", end_by_result, "token_consumed", "token.consumed"},       // S3-46
        EndCase{"ItsOwnUse", end_by_token, "token_consumed", "token.consumed"},     // S3-46
        EndCase{"CallTimeout", end_by_expiry, "token_consumed", "token.consumed"},  // S3-47
        EndCase{"Acknowledge", end_by_acknowledge, "token_consumed", "token.consumed"},
        EndCase{"Cancel", end_by_discard, "token_revoked", "token.revoked"},  // S3-48
        EndCase{"NewRun", [](SessionDriver& d) { return d.message(); }, "token_revoked",
                "token.revoked"},  // S3-49
        EndCase{"Failure", [](SessionDriver& d) { return d.fail(); }, "token_revoked",
                "token.revoked"},
        EndCase{"Deletion", [](SessionDriver& d) { return d.remove(); }, "token_revoked",
                "token.revoked"},
        EndCase{"Rotation", [](SessionDriver& d) { return d.rotate_token(); }, "token_revoked",
                "token.revoked"}),
    [](const auto& test) { return test.param.name; });

// S3-40, S3-47, S3-50: the deadline of a wait without calls.
TEST(TokenRulesTest, ExpiresWithTheDeadlineOfItsWait) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.park_for_input(1h));
    const PresentedToken token = driver.tokens().back();
    driver.clock().advance(1h);
    driver.commit(driver.due());
    EXPECT_EQ(driver.state().run->outcome, RunOutcome::interrupted);
    EXPECT_EQ(driver.state().find_token(token.token_id)->status, TokenStatus::expired);
    EXPECT_EQ(answer_of(validate_token(driver.state(), token, driver.now() - 24h)),
              "token_expired");
}

// W11, T30: the log saw a time at which the token was over; no later record takes that back.
TEST(TokenRulesTest, AClockThatGoesBackNeverRevivesAToken) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.park_for_input(1h));
    const PresentedToken token = driver.tokens().back();
    driver.clock().advance(2h);
    driver.commit(driver.update("noted when the token was over"));
    driver.clock().set(driver.now() - 2h);
    EXPECT_EQ(answer_of(validate_token(driver.state(), token, driver.now())), "token_expired");
    driver.commit(driver.update("noted by a clock that was set back"));
    EXPECT_EQ(answer_of(validate_token(driver.state(), token, driver.now())), "token_expired");
}

// ---- the text on the wire ---------------------------------------------------------------------

TEST(TokenRulesTest, TextIsTheIdADotAndTheSecret) {
    const Secret text = to_token_text(TokenId("rt_5f0"), Secret("S3CR3T"));
    EXPECT_EQ(text.reveal(), "rt_5f0.S3CR3T");
    const Result<PresentedToken> parsed = parse_token_text(text.reveal());
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->token_id, TokenId("rt_5f0"));
    EXPECT_EQ(parsed->secret.reveal(), "S3CR3T");
}

TEST(TokenRulesTest, OtherTextIsNoToken) {
    for (const std::string_view text : {"", ".", "rt_", "rt_1", "rt_1.", ".x", "rt_.x", "run_1.x",
                                        "rt_a/b.x", "rt_1 .x", "../rt_1.x"}) {
        const Result<PresentedToken> parsed = parse_token_text(text);
        ASSERT_FALSE(parsed) << text;
        EXPECT_EQ(reason_of(parsed), "invalid_token") << text;
    }
}

}  // namespace
}  // namespace rouse
