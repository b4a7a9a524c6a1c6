#pragma once

// From configuration to agents and tools that work.

#include "app/model_maker.h"
#include "base/clock.h"
#include "config/config.h"
#include "net/http_client.h"
#include "runtime/child_planner.h"
#include "runtime/detached_calls.h"
#include "runtime/mail_planner.h"
#include "runtime/registry.h"

namespace rouse::app {

struct CatalogueParts {
    Clock& clock;
    HttpClient& http;
    ChildPlanner& children;
    DetachedCalls& detached;
    MailPlanner& mail;
    std::string public_url;  // where callbacks reach us
    Variables variables;     // of the environment
};

// invalid, with what is wrong: a script that cannot be read, a schema that is none.
Result<Catalogue> build_catalogue(const Config& config, const CatalogueParts& parts);

}  // namespace rouse::app
