#pragma once

// The tool with which an agent asks a person. In process, through a dialog of yours; or
// asynchronously: the turn suspends, and whoever has the answer resumes it with
// to_json(AskUserOutput) as the text of the result.

#include <memory>
#include <string>
#include <vector>

#include "rouse/tool.h"

namespace rouse {

enum class AskType : std::uint8_t { confirm, select, text };
template <>
inline constexpr std::string_view kEnumNames<AskType>[] = {"confirm", "select", "text"};

struct AskUserInput {
    std::string question;
    AskType type = AskType::text;
    std::vector<std::string> options;  // of a select
    friend bool operator==(const AskUserInput&, const AskUserInput&) = default;
    static constexpr auto fields() {
        using S = AskUserInput;
        return std::tuple(required("question", &S::question), required("type", &S::type),
                          field("options", &S::options));
    }
};

struct AskUserOutput {
    std::string answer;      // the text, or the chosen option; "yes" or "no" for a confirm
    bool confirmed = false;  // of a confirm
    friend bool operator==(const AskUserOutput&, const AskUserOutput&) = default;
    static constexpr auto fields() {
        return std::tuple(required("answer", &AskUserOutput::answer),
                          field("confirmed", &AskUserOutput::confirmed));
    }
};

class Dialog {
 public:
    virtual ~Dialog() = default;
    virtual Task<Result<AskUserOutput>> ask(AskUserInput input) = 0;
};

// Says yes, takes the first option, answers "ok".
std::shared_ptr<Dialog> auto_approve_dialog();

struct AskUserOptions {
    bool async = false;
    std::shared_ptr<Dialog> dialog = {};       // not used when async
    std::optional<Milliseconds> timeout = {};  // for the answer, when async
};

std::shared_ptr<Tool> ask_user_tool(AskUserOptions options);

}  // namespace rouse
