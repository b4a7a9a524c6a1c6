#include "tools/job_start.h"

#include <vector>

#include "base/json.h"

namespace rouse {

std::string JobCallback::url() const {
    std::string url = base_url;
    while (url.ends_with('/'))
        url.pop_back();
    return url + "/async-tool/webhook";
}

std::string describe_job(const ToolCall& call, const JobCallback& callback) {
    std::string body = "{\"pendingID\":" + to_json_string(call.pending_id.text());
    body += ",\"callID\":" + to_json_string(call.id.text);
    body += ",\"sessionID\":" + to_json_string(call.session_id.text());
    body += ",\"tool\":" + to_json_string(call.name);
    body += ",\"input\":" + call.input.text();
    body += ",\"callbackURL\":" + to_json_string(callback.url());
    if (!callback.secret_name.empty()) {
        body += ",\"webhookSecretName\":" + to_json_string(callback.secret_name);
    }
    return body + '}';
}

Suspend read_job_started(const std::string& answer) {
    Suspend suspend;
    const Result<RawJson> json = RawJson::parse(answer);
    std::vector<JsonMember> members;
    if (!json || !split_object(json->text(), members)) return suspend;
    for (const auto& [key, value] : members) {
        if (value == "null") continue;
        const std::string text = read_json_string(value).value_or(std::string(value));
        if (key == "externalRef") suspend.external_ref = text;
        if (key == "output") suspend.prompt = text;
        const std::optional<std::int64_t> ms = read_json_int(value);
        if (key == "estimatedDuration" && ms && *ms >= 0) suspend.estimated = Milliseconds(*ms);
    }
    return suspend;
}

Suspend job_not_confirmed() {
    Suspend suspend;
    suspend.metadata = RawJson::trusted(R"({"start":"not confirmed"})");
    return suspend;
}

ToolOutcome needs_durable_session(const ToolCall& call) {
    return ToolOutcome::error("the tool " + call.name +
                              " answers later, which needs a durable session");
}

}  // namespace rouse
