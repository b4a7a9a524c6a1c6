#pragma once

// Every limit of the product, in one place. Sizes are bytes unless the name says otherwise.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rouse::limits {

// JSON from outside: tool inputs, results, metadata.
inline constexpr std::size_t kJsonDepth = 64;

// Pending calls and waits.
inline constexpr std::chrono::hours kCallTimeout{24};
inline constexpr std::chrono::hours kWaitGrace{1};  // a wait outlives its latest call by this
inline constexpr std::uint32_t kInterruptionsInARow = 3;

// How long the ids of a deleted session answer "gone" instead of "unknown".
inline constexpr std::chrono::hours kTombstone{24 * 30};

// The server.
inline constexpr std::size_t kCachedSessions = 1000;  // with their conversations
inline constexpr std::size_t kCachedConversations = std::size_t{64} << 20;  // all of them, in bytes
// One that is shorter and whose run is over is read again when somebody comes back to it.
inline constexpr std::size_t kShortConversation = 8U << 10U;
inline constexpr std::size_t kConcurrentRuns = 64;
inline constexpr std::size_t kChildDepth = 5;
inline constexpr std::chrono::hours kAnswersKept{24};       // to requests with an Idempotency-Key
inline constexpr std::size_t kAnswersRemembered = 250'000;  // of those, the latest
inline constexpr std::chrono::minutes kLongestWait{5};
// Progress of one call: what comes between is in memory.
inline constexpr std::chrono::seconds kProgressRecordedEvery{30};
// Webhooks: on their way, in all and to one endpoint; waiting for one endpoint; given up and kept.
inline constexpr std::size_t kWebhooksAtOnce = 64;
inline constexpr std::size_t kWebhooksAtOnceEach = 8;
inline constexpr std::size_t kWebhooksWaitingEach = 50'000;
inline constexpr std::size_t kWebhooksDead = 10'000;
// So many records, and half as many as there are rows, before the view of the system log is written
// again.
inline constexpr std::size_t kSystemRecordsPerView = 10'000;
// What one request for a list of settled calls reads: so many logs, so much of them in all.
inline constexpr std::size_t kListedLogs = 500;
inline constexpr std::uint64_t kListedLogBytes = 8U << 20U;
// Outgoing HTTP and programs that we run.
inline constexpr std::chrono::seconds kHttpConnectTimeout{10};
inline constexpr std::size_t kHttpResponseBytes = 16U << 20U;
inline constexpr std::size_t kModelResponseBytes = 64U << 20U;
inline constexpr std::size_t kHttpHeaderBytes = 64U << 10U;  // of a response, in all
inline constexpr long kHttpKeptConnections = 64;
inline constexpr std::size_t kProcessOutputBytes = 1U << 20U;  // of each stream
inline constexpr std::chrono::seconds kToolTimeout{60};        // of a call that we wait for
inline constexpr std::size_t kToolOutputBytes = 1U << 20U;
// Results of one turn's calls that may wait for what is written next.
inline constexpr std::size_t kKeptResultBytes = 4U << 20U;
inline constexpr std::size_t kToolErrorBytes = 2U << 10U;  // of a failure's own words

// Mail between agents.
inline constexpr std::size_t kInboxLetters = 100;      // that the agent has not seen
inline constexpr std::size_t kLetterBytes = 10'000;    // of one message
inline constexpr std::size_t kLetterQuoteBytes = 200;  // of what is answered
inline constexpr std::uint32_t kChainHops = 8;         // from agent to agent
inline constexpr std::uint32_t kChainWakes = 32;       // in one chain, whoever is in it
inline constexpr std::size_t kLettersAtOnce = 64;      // recipients in one commit
inline constexpr std::chrono::hours kChainsKept{24};

// The files store.
inline constexpr std::uint64_t kJournalSegmentBytes = 64ULL << 20U;
inline constexpr std::uint64_t kJournalSectorBytes = 512;
inline constexpr std::size_t kGroupBytes = 4U << 20U;          // a sync group is closed past this
inline constexpr std::size_t kCommitBytes = 32U << 20U;        // a larger commit is refused
inline constexpr std::size_t kTailBytes = 8U << 20U;           // in memory, not yet in the logs
inline constexpr std::uint64_t kCheckpointBytes = 24U << 20U;  // of journal, between checkpoints
inline constexpr std::size_t kStateCacheBytes = 16U << 20U;
inline constexpr std::uint64_t kShortLog = 8U << 10U;      // read again rather than remembered
inline constexpr std::uint64_t kPackBytes = 16U << 20U;    // of short logs in one file
inline constexpr std::uint64_t kLongLog = 256U << 10U;     // nothing that a loop reads by itself
inline constexpr std::size_t kLogPageBytes = 16U << 20U;   // of records in one answer
inline constexpr std::size_t kOpenLogs = 1000;             // with their states in memory
inline constexpr std::uint64_t kReserveBytes = 4U << 20U;  // for cancel, delete, expiry when full
inline constexpr std::chrono::hours kJournalKept{1};       // for replay of the global stream

}  // namespace rouse::limits
