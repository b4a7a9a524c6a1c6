#pragma once

// The pieces of which requests to providers are made.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rouse/models.h"

namespace rouse {

// An object, member by member; one that is set again takes the new value.
class JsonMembers {
 public:
    JsonMembers& raw(std::string_view key, std::string value);
    JsonMembers& text(std::string_view key, std::string_view value);
    JsonMembers& number(std::string_view key, std::int64_t value);
    JsonMembers& real(std::string_view key, double value);
    JsonMembers& flag(std::string_view key, bool value);
    // Every member of this object, over those that are there.
    JsonMembers& all_of(const RawJson& object);

    std::string done() const;

 private:
    std::vector<std::pair<std::string, std::string>> members_;
};

std::string json_array(const std::vector<std::string>& items);

// The input of a tool call as a model wrote it: an object; what is not even JSON becomes a string
// of it, which no tool takes.
RawJson tool_input(std::string_view written);

// What a tool is called with when it does not say.
std::string_view parameters_of(const ToolSpec& tool);

// A tool result for a provider that takes text alone; images are left to `images`, if given.
std::string result_text(const ToolResultBlock& result, std::vector<ImageBlock>* images);

// "data:image/png;base64,…", or the image's own address; empty when the source is neither.
std::string image_url(const ImageBlock& image);

// The system prompt and, for providers that want them nowhere else, the system's messages.
std::string system_text(const ModelRequest& request);

template <class Function>
void each_message(const ModelRequest& request, Function&& function) {
    for (const std::span<const Message> part : {request.history, request.turn}) {
        for (const Message& message : part)
            function(message);
    }
}

}  // namespace rouse
