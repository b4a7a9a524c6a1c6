#include "runtime/outbox.h"

#include <gtest/gtest.h>

namespace rouse {
namespace {

// The vector of the norm's own libraries.
TEST(OutboxTest, SignsAsTheNormSays) {
    EXPECT_EQ(
        webhook_signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek",
                          "1614265330", "{\"test\": 2432232314}"),
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

}  // namespace
}  // namespace rouse
