#include "testing/self_signed.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

namespace rouse::testing {
namespace {

template <auto function>
struct Free {
    template <class T>
    void operator()(T* thing) const {
        function(thing);
    }
};

std::string text_of(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return {data, static_cast<std::size_t>(size)};
}

}  // namespace

SelfSigned make_self_signed(std::string_view names) {
    const std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>> key(EVP_EC_gen("P-256"));
    const std::unique_ptr<X509, Free<X509_free>> certificate(X509_new());
    X509_set_version(certificate.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 24L * 3600);
    X509_set_pubkey(certificate.get(), key.get());
    X509_NAME* name = X509_get_subject_name(certificate.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(certificate.get(), name);
    const std::string listed(names);
    const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, listed.c_str()));
    X509_add_ext(certificate.get(), extension.get(), -1);
    X509_sign(certificate.get(), key.get(), EVP_sha256());

    const std::unique_ptr<BIO, Free<BIO_free_all>> certificate_text(BIO_new(BIO_s_mem()));
    const std::unique_ptr<BIO, Free<BIO_free_all>> key_text(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(certificate_text.get(), certificate.get());
    PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    return {text_of(certificate_text.get()), text_of(key_text.get())};
}

}  // namespace rouse::testing
