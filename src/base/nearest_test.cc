#include "base/nearest.h"

#include <gtest/gtest.h>

namespace rouse {
namespace {

TEST(NearestTest, IsTheNameWithFewestEdits) {
    const std::vector<std::string> names = {"listen", "public_url", "tls_cert", "tls_key"};
    EXPECT_EQ(nearest("listn", names), "listen");    // a letter lost
    EXPECT_EQ(nearest("listenn", names), "listen");  // added
    EXPECT_EQ(nearest("listem", names), "listen");   // changed
    EXPECT_EQ(nearest("lisetn", names), "listen");   // swapped
    EXPECT_EQ(nearest("Public-URL", names), "public_url");
    EXPECT_EQ(nearest("tls_certs", names), "tls_cert");
    EXPECT_EQ(nearest("kidn", std::vector<std::string>{"kind"}), "kind");  // a swap is one edit
    EXPECT_EQ(nearest("kxdx", std::vector<std::string>{"kind"}), std::nullopt);
    EXPECT_EQ(nearest("banana", names), std::nullopt);
    EXPECT_EQ(nearest("", names), std::nullopt);
    EXPECT_EQ(nearest(std::string(100'000, 'x'), names), std::nullopt);
}

}  // namespace
}  // namespace rouse
