#pragma once

// Identifiers with types of their own, so that a RunId cannot stand where a SessionId is meant.

#include <atomic>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace rouse {

// The one pattern of all ids: ^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$. Whatever passes is safe as a file
// name: no dot, slash, colon, blank, NUL or leading dash or underscore.
bool is_valid_id_text(std::string_view text);

// A text that never changes. Ids are copied at every turn, so copies share it, with its hash. Any
// thread may have one.
class SharedText {
 public:
    SharedText() = default;
    explicit SharedText(std::string text) {
        if (!text.empty()) held_ = new Held(std::move(text));
    }

    const std::string& text() const { return held_ ? held_->text : kEmpty; }
    std::size_t hash() const { return held_ ? held_->hash() : 0; }

    friend bool operator==(const SharedText& a, const SharedText& b) {
        return a.held_ == b.held_ || a.text() == b.text();
    }
    friend auto operator<=>(const SharedText& a, const SharedText& b) {
        return a.text() <=> b.text();
    }

 private:
    struct Held {
        explicit Held(std::string given) : text(std::move(given)) {}

        std::size_t hash() const {
            std::size_t known = hashed.load(std::memory_order_relaxed);
            if (known != 0) return known;
            known = std::hash<std::string>{}(text);
            hashed.store(known, std::memory_order_relaxed);
            return known;
        }

        const std::string text;
        mutable std::atomic<std::size_t> hashed = 0;  // 0: nobody has asked yet
        mutable std::atomic<std::uint32_t> uses = 0;
        friend void intrusive_ptr_add_ref(const Held* held) {
            held->uses.fetch_add(1, std::memory_order_relaxed);
        }
        friend void intrusive_ptr_release(const Held* held) {
            if (held->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) delete held;
        }
    };
    static inline const std::string kEmpty;

    boost::intrusive_ptr<const Held> held_;
};

// Tag supplies `prefix` ("sess_"), which every id of this type starts with.
template <class Tag>
class Id {
 public:
    static constexpr std::string_view kPrefix = Tag::prefix;

    Id() = default;
    explicit Id(std::string text) : text_(std::move(text)) {}

    static bool is_valid(std::string_view text) {
        return text.starts_with(kPrefix) && text.size() > kPrefix.size() && is_valid_id_text(text);
    }

    // For text from outside. invalid: not an id of this type.
    static Result<Id> parse(std::string_view text) {
        if (!is_valid(text)) {
            return Error(ErrorKind::invalid, "invalid_id",
                         "not an id of the form " + std::string(kPrefix) + "…");
        }
        return Id(std::string(text));
    }

    const std::string& text() const { return text_.text(); }
    bool empty() const { return text().empty(); }
    std::size_t hash() const { return text_.hash(); }
    friend bool operator==(const Id&, const Id&) = default;
    friend auto operator<=>(const Id&, const Id&) = default;

 private:
    SharedText text_;
};

}  // namespace rouse

template <class Tag>
struct std::hash<rouse::Id<Tag>> {
    std::size_t operator()(const rouse::Id<Tag>& id) const { return id.hash(); }
};
