// How fast the files store is, each figure beside what the same disk and CPU can do at best.
//
//   store_bench [--smoke] [commits|opening|logs|bytes]      --smoke: tiny, to see that it runs

#include <fcntl.h>
#include <linux/fs.h>
#include <malloc.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <latch>
#include <thread>

#include "agent/recovery_manager.h"
#include "base/check.h"
#include "base/id_source.h"
#include "bench/figure.h"
#include "domain/run_rules.h"
#include "domain/wait_rules.h"
#include "store/files/file_store.h"
#include "testing/forwarding_fs.h"

namespace rouse::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
    return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

struct Sizes {
    int commits = 100'000;  // of 64 writers
    int single_commits = 2'000;
    int waiting = 20'000;
    int finished = 20'000;
    int long_log = 10'000;
};

// The real world, quiet.
struct World {
    SystemClock clock;
    SystemRandom random;
    RealFs fs;
    Logger log{LogLevel::error};
    IdSource ids{clock, random};
    Env env() { return {clock, random, fs, log}; }
};

// The same disk, as if it took longer to sync.
class SlowerFs final : public testing::ForwardingFs {
 public:
    SlowerFs(Fs& fs, std::chrono::microseconds by) : ForwardingFs(fs), by_(by) {}
    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
        Result<std::unique_ptr<File>> file = ForwardingFs::open(path, mode);
        if (!file) return file;
        return std::make_unique<SlowerFile>(*std::move(file), by_);
    }

 private:
    class SlowerFile final : public testing::ForwardingFile {
     public:
        SlowerFile(std::unique_ptr<File> file, std::chrono::microseconds by)
            : ForwardingFile(std::move(file)), by_(by) {}
        Result<void> sync_data() override {
            std::this_thread::sleep_for(by_);
            return ForwardingFile::sync_data();
        }

     private:
        std::chrono::microseconds by_;
    };

    std::chrono::microseconds by_;
};

// ext4 without a journal looks at every inode of a block group that was freed in the last minutes
// when it makes a file there: what another program deleted would be measured too. Directories below
// one with this flag get groups of their own. Other file systems refuse it, and need no such thing.
void spread_directories(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int flags = 0;
    if (fd >= 0 && ::ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_TOPDIR_FL;
        (void)::ioctl(fd, FS_IOC_SETFLAGS, &flags);
    }
    ::close(fd);
}

class Directory {
 public:
    Directory() {
        std::string name = (std::filesystem::current_path() / "bench-data-XXXXXX").string();
        ROUSE_CHECK(::mkdtemp(name.data()) != nullptr, "no directory for the bench");
        path_ = name;
        spread_directories(path_);
    }
    ~Directory() { std::filesystem::remove_all(path_); }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    std::string sub(const std::string& name) const { return path_ + "/" + name; }

 private:
    std::string path_;
};

std::unique_ptr<FileStore> open_store(const Env& env, const std::string& path) {
    Result<std::unique_ptr<FileStore>> store = FileStore::open(env, path);
    ROUSE_CHECK(store.has_value(), store ? "" : store.error().message);
    return *std::move(store);
}

void must_commit(Store& store, const SessionId& id, Records records) {
    const Result<Committed> done =
        store.commit_and_wait(make_commit(id, std::nullopt, std::move(records)));
    ROUSE_CHECK(done.has_value(), done ? "" : done.error().message);
}

SessionId create(World& world, Store& store) {
    SessionCreated created;
    created.id = world.ids.make<SessionId>();
    must_commit(store, created.id, {created});
    return created.id;
}

// A record whose line is 512 bytes long, near enough.
Records record_of_512(World& world) {
    return {
        MessageUser{world.ids.make<MessageId>(), text_content(std::string(320, 'x')), false, {}}};
}

// What the disk can do: the same bytes, in groups, overwriting a file in place.
double bare_rate(const std::string& path, std::size_t group, int records,
                 std::chrono::microseconds slower = {}) {
    constexpr std::size_t kFile = 64U << 20U;
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ROUSE_CHECK(fd >= 0, "cannot open the bare file");
    const std::string zeros(1U << 20U, '\0');
    for (std::size_t at = 0; at < kFile; at += zeros.size()) {
        ROUSE_CHECK(::pwrite(fd, zeros.data(), zeros.size(), static_cast<off_t>(at)) > 0, "write");
    }
    ROUSE_CHECK(::fsync(fd) == 0, "fsync");
    const std::string bytes(group * 512, 'x');
    const SteadyClock::time_point start = SteadyClock::now();
    std::size_t at = 0;
    for (int done = 0; done < records; done += static_cast<int>(group)) {
        ROUSE_CHECK(::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at)) > 0, "write");
        if (slower.count() > 0) std::this_thread::sleep_for(slower);
        ROUSE_CHECK(::fdatasync(fd) == 0, "fdatasync");
        at = (at + bytes.size()) % (kFile - bytes.size());
    }
    const double rate = records / seconds_since(start);
    ::close(fd);
    return rate;
}

// Writers that commit again as soon as they hear of the last one, `depth` commits in flight each.
class Writers {
 public:
    Writers(World& world, FileStore& store, int writers, int depth, int commits)
        : store_(store), left_(commits), running_(writers * depth) {
        for (int i = 0; i < writers; ++i) {
            sessions_.push_back(create(world, store));
            records_.push_back(record_of_512(world));
        }
        depth_ = depth;
    }

    // Commits a second, the checkpoint at the end included.
    double run() {
        const int commits = left_;
        const SteadyClock::time_point start = SteadyClock::now();
        for (std::size_t i = 0; i < sessions_.size(); ++i) {
            for (int d = 0; d < depth_; ++d)
                next(i);
        }
        running_.wait();
        ROUSE_CHECK(store_.checkpoint().has_value(), "checkpoint");
        return commits / seconds_since(start);
    }

 private:
    void next(std::size_t writer) {
        if (left_.fetch_sub(1) <= 0) return running_.count_down();
        store_.commit(make_commit(sessions_[writer], std::nullopt, records_[writer]),
                      [this, writer](Result<Committed> done) {
                          ROUSE_CHECK(done.has_value(), "commit");
                          next(writer);
                      });
    }

    FileStore& store_;
    std::vector<SessionId> sessions_;
    std::vector<Records> records_;
    std::atomic<int> left_;
    int depth_ = 1;
    std::latch running_;
};

double blocking_rate(World& world, FileStore& store, int threads, int commits) {
    std::vector<SessionId> sessions;
    for (int i = 0; i < threads; ++i)
        sessions.push_back(create(world, store));
    std::atomic<int> left = commits;
    const SteadyClock::time_point start = SteadyClock::now();
    std::vector<std::thread> writers;
    for (const SessionId& id : sessions) {
        writers.emplace_back([&, id] {
            const Records records = record_of_512(world);
            while (left.fetch_sub(1) > 0)
                must_commit(store, id, records);
        });
    }
    for (std::thread& writer : writers)
        writer.join();
    ROUSE_CHECK(store.checkpoint().has_value(), "checkpoint");
    return commits / seconds_since(start);
}

// The best of some rounds: what disturbs a machine only makes it slower.
struct BestRates {
    double bare = 0;
    double store = 0;
    void add(double bare_rate, double store_rate) {
        bare = std::max(bare, bare_rate);
        store = std::max(store, store_rate);
    }
};

// In turns with the bare loop, as a disk may be twice as quick a second later.
void bench_commits(const Sizes& sizes, std::vector<Figure>& figures) {
    constexpr int kRounds = 2;
    const Directory directory;
    World world;
    const auto store = open_store(world.env(), directory.sub("data"));
    (void)Writers(world, *store, 64, 1, sizes.commits / 4).run();  // warm up
    BestRates of_64;
    BestRates of_1;
    for (int round = 0; round < kRounds; ++round) {
        const double bare_64 = bare_rate(directory.sub("bare"), 64, sizes.commits);
        of_64.add(bare_64, Writers(world, *store, 64, 1, sizes.commits).run());
        const double bare_1 = bare_rate(directory.sub("bare"), 1, sizes.single_commits);
        of_1.add(bare_1, blocking_rate(world, *store, 1, sizes.single_commits));
    }
    const double rate_deep = Writers(world, *store, 64, 2, sizes.commits).run();
    const double rate_threads = blocking_rate(world, *store, 64, sizes.commits);
    figures.push_back(
        {"store", "commits, 64 writers", of_64.store, "1/s", of_64.bare, Goal::at_least, 0.8});
    figures.push_back({"store", "commits, 64 writers, 2 in flight each", rate_deep, "1/s",
                       of_64.bare, Goal::none, 0});
    figures.push_back(
        {"store", "commits, 64 blocking threads", rate_threads, "1/s", of_64.bare, Goal::none, 0});
    figures.push_back(
        {"store", "commits, 1 writer", of_1.store, "1/s", of_1.bare, Goal::at_least, 0.8});
}

// The disk of another machine: what the store adds to a sync weighs less where that takes longer.
void bench_slower_disk(const Sizes& sizes, std::vector<Figure>& figures) {
    constexpr std::chrono::microseconds kSlower{500};
    const Directory directory;
    World world;
    SlowerFs fs(world.fs, kSlower);
    const auto store =
        open_store({world.clock, world.random, fs, world.log}, directory.sub("data"));
    const int commits = sizes.commits / 4;
    const double bare = bare_rate(directory.sub("bare"), 64, commits, kSlower);
    const double rate = Writers(world, *store, 64, 1, commits).run();
    figures.push_back(
        {"store", "commits, 64 writers, a sync 0.5 ms slower", rate, "1/s", bare, Goal::none, 0});
}

// The records of a session that waits for a deploy, as one commit.
Records waiting_session(World& world, const SessionId& id, const BootId& boot) {
    SessionState state;
    SessionCreated created;
    created.id = id;
    created.agent = "demo";
    const RunId run = world.ids.make<RunId>();
    MessageAssistant answer;
    answer.message_id = world.ids.make<MessageId>();
    answer.run_id = run;
    answer.content.emplace_back(
        ToolUseBlock{{"call_01"}, "deploy_preview", RawJson::trusted(R"({"branch":"main"})"), {}});
    PendingCreated call;
    call.pending_id = make_pending_id(id, world.ids.random_text(20));
    call.run_id = run;
    call.call_id = {"call_01"};
    call.tool = "deploy_preview";
    call.expires_at = world.clock.now() + std::chrono::hours(24);
    const WaitId wait = world.ids.make<WaitId>();
    const TokenId token = world.ids.make<TokenId>();
    const Timestamp deadline = *call.expires_at + std::chrono::hours(1);
    return {created,
            MessageUser{world.ids.make<MessageId>(), text_content("deploy it"), false, {}},
            RunStarted{run, boot, {}, {}},
            answer,
            call,
            TokenMinted{token, std::string(64, 'a'), run, wait, WaitKind::external, deadline, {}},
            RunWaiting{run, wait, WaitKind::external, token, deadline, {}, {}}};
}

Records finished_session(World& world, const SessionId& id, const BootId& boot) {
    SessionCreated created;
    created.id = id;
    created.agent = "demo";
    const RunId run = world.ids.make<RunId>();
    return {created, MessageUser{world.ids.make<MessageId>(), text_content("hello"), false, {}},
            RunStarted{run, boot, {}, {}}, RunCompleted{run, {}}};
}

// In a process of its own, so that memory and caches start empty. Returns what `work` wrote.
template <class Work>
std::vector<double> in_child(Work work) {
    int ends[2];
    ROUSE_CHECK(::pipe(ends) == 0, "pipe");
    const pid_t child = ::fork();
    ROUSE_CHECK(child >= 0, "fork");
    if (child == 0) {
        const std::vector<double> numbers = work();
        const std::size_t bytes = numbers.size() * sizeof(double);
        const ssize_t put = ::write(ends[1], numbers.data(), bytes);
        std::_Exit(put == static_cast<ssize_t>(bytes) ? 0 : 1);
    }
    ::close(ends[1]);
    std::vector<double> numbers(8);
    const ssize_t got = ::read(ends[0], numbers.data(), numbers.size() * sizeof(double));
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    ROUSE_CHECK(status == 0 && got >= 0, "a part of the bench failed");
    numbers.resize(static_cast<std::size_t>(got) / sizeof(double));
    return numbers;
}

double resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    long total = 0;
    long resident = 0;
    statm >> total >> resident;
    return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

void fill(const std::string& path, int waiting, int finished) {
    in_child([&] {
        World world;
        const auto store = open_store(world.env(), path);
        const BootId boot = world.ids.make<BootId>();
        std::latch done(waiting + finished);
        for (int i = 0; i < waiting + finished; ++i) {
            const SessionId id = world.ids.make<SessionId>();
            Records records =
                i < waiting ? waiting_session(world, id, boot) : finished_session(world, id, boot);
            store->commit(make_commit(id, 0, std::move(records)), [&](Result<Committed> committed) {
                ROUSE_CHECK(committed.has_value(), "commit");
                done.count_down();
            });
        }
        done.wait();
        ROUSE_CHECK(store->close().has_value(), "close");
        return std::vector<double>{1};
    });
}

struct Opening {
    double open_seconds = 0;
    double parse_seconds = 0;  // reading the index's bytes and parsing each line with Boost.JSON
    double bytes_each = 0;
};

Opening measure_opening(const std::string& path, int sessions) {
    const auto parse = [&] {
        const SteadyClock::time_point start = SteadyClock::now();
        RealFs fs;
        const Result<std::string> text = fs.read_file(path + "/index.ckpt");
        ROUSE_CHECK(text.has_value(), "no index");
        std::size_t lines = 0;
        for (std::size_t at = 0; at < text->size();) {
            const std::size_t end = text->find('\n', at);
            lines += boost::json::parse(std::string_view(*text).substr(at, end - at)).is_object();
            at = end + 1;
        }
        ROUSE_CHECK(lines > 0, "an empty index");
        return std::vector<double>{seconds_since(start)};
    };
    const auto open = [&] {
        World world;
        ::malloc_trim(0);
        const double before = resident_bytes();
        const SteadyClock::time_point start = SteadyClock::now();
        const auto store = open_store(world.env(), path);
        const BootId boot = world.ids.make<BootId>();
        const Result<BootReport> report = RecoveryManager(world.env(), *store).recover(boot);
        ROUSE_CHECK(report.has_value(), "recover");
        const double took = seconds_since(start);
        ::malloc_trim(0);
        const double each = (resident_bytes() - before) / sessions;
        return std::vector<double>{took, each};
    };
    (void)in_child(parse);  // warms the page cache
    Opening best;
    for (int round = 0; round < 3; ++round) {
        const double parsed = in_child(parse)[0];
        const std::vector<double> opened = in_child(open);
        if (round == 0 || parsed < best.parse_seconds) best.parse_seconds = parsed;
        if (round == 0 || opened[0] < best.open_seconds) best.open_seconds = opened[0];
        best.bytes_each = opened[1];
    }
    return best;
}

void bench_opening(const Sizes& sizes, std::vector<Figure>& figures) {
    const Directory directory;
    fill(directory.sub("waiting"), sizes.waiting, 0);
    const Opening waiting = measure_opening(directory.sub("waiting"), sizes.waiting);
    fill(directory.sub("finished"), 100, sizes.finished);
    const Opening finished = measure_opening(directory.sub("finished"), sizes.finished);
    const std::string n = std::to_string(sizes.waiting) + " waiting";
    const std::string m = std::to_string(sizes.finished) + " finished";
    const double scale = static_cast<double>(sizes.finished) / sizes.waiting;
    figures.push_back({"store", "open and recover, " + n, waiting.open_seconds, "s",
                       waiting.parse_seconds, Goal::at_most, 3});
    figures.push_back({"store", "open and recover, as if 100000",
                       waiting.open_seconds * 1e5 / sizes.waiting, "s", 0, Goal::at_most, 1.5});
    figures.push_back(
        {"store", "memory for each, " + n, waiting.bytes_each, "bytes", 0, Goal::at_most, 800});
    figures.push_back({"store", "open and recover, " + m + " + 100 waiting", finished.open_seconds,
                       "s", waiting.open_seconds * scale, Goal::at_most, 0.25});
}

double commit_seconds(World& world, FileStore& store, const SessionId& id, int commits) {
    const Records records = record_of_512(world);
    const SteadyClock::time_point start = SteadyClock::now();
    for (int i = 0; i < commits; ++i)
        must_commit(store, id, records);
    return seconds_since(start) / commits;
}

void append_until(World& world, FileStore& store, const SessionId& id, int records) {
    Records batch;
    for (int i = 0; i < records; ++i) {
        batch.push_back(record_of_512(world).front());
        if (batch.size() < 100 && i + 1 < records) continue;
        must_commit(store, id, std::move(batch));
        batch.clear();
    }
}

void bench_long_logs(const Sizes& sizes, std::vector<Figure>& figures) {
    const Directory directory;
    World world;
    const auto store = open_store(world.env(), directory.sub("data"));
    const SessionId small = create(world, *store);
    const SessionId large = create(world, *store);
    append_until(world, *store, small, 10);
    append_until(world, *store, large, sizes.long_log);
    double small_seconds = 0;
    double large_seconds = 0;
    const int rounds = 10;
    for (int round = 0; round < rounds; ++round) {
        small_seconds += commit_seconds(world, *store, small, sizes.single_commits / rounds / 4);
        large_seconds += commit_seconds(world, *store, large, sizes.single_commits / rounds / 4);
    }
    figures.push_back({"store", "commit to a log of " + std::to_string(sizes.long_log),
                       large_seconds / rounds * 1e6, "us", small_seconds / rounds * 1e6,
                       Goal::at_most, 1.3});

    ROUSE_CHECK(store->close().has_value(), "close");
    const std::string log = directory.sub("data") + "/sessions/" + large.text() + ".messages.jsonl";
    double load_rate = 0;
    double parse_rate = 0;
    for (int round = 0; round < 5; ++round) {
        const auto reopened = open_store(world.env(), directory.sub("data"));
        SteadyClock::time_point start = SteadyClock::now();
        ROUSE_CHECK(reopened->load(large).has_value(), "load");
        load_rate = std::max(load_rate, sizes.long_log / seconds_since(start));
        const Result<std::string> text = world.fs.read_file(log);
        start = SteadyClock::now();
        for (std::size_t at = 0; at < text->size();) {
            const std::size_t end = text->find('\n', at);
            ROUSE_CHECK(
                boost::json::parse(std::string_view(*text).substr(at, end - at)).is_object(),
                "parse");
            at = end + 1;
        }
        parse_rate = std::max(parse_rate, sizes.long_log / seconds_since(start));
    }
    figures.push_back({"store", "load a log of " + std::to_string(sizes.long_log), load_rate,
                       "records/s", parse_rate, Goal::at_least, 0.5});
}

// Counts the bytes given to write.
class CountingFs final : public testing::ForwardingFs {
 public:
    using ForwardingFs::ForwardingFs;
    std::uint64_t written() const { return written_; }

    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
        Result<std::unique_ptr<File>> file = ForwardingFs::open(path, mode);
        if (!file) return file;
        return std::make_unique<Counting>(*std::move(file), written_);
    }

 private:
    class Counting final : public testing::ForwardingFile {
     public:
        Counting(std::unique_ptr<File> file, std::atomic<std::uint64_t>& written)
            : ForwardingFile(std::move(file)), written_(written) {}
        Result<std::size_t> write_some_at(std::uint64_t at, std::string_view bytes) override {
            Result<std::size_t> put = ForwardingFile::write_some_at(at, bytes);
            if (put) written_ += *put;
            return put;
        }

     private:
        std::atomic<std::uint64_t>& written_;
    };

    std::atomic<std::uint64_t> written_ = 0;
};

void bench_bytes(std::vector<Figure>& figures) {
    const Directory directory;
    World world;
    CountingFs fs(world.fs);
    Result<std::unique_ptr<FileStore>> store =
        FileStore::open({world.clock, world.random, fs, world.log}, directory.sub("data"));
    ROUSE_CHECK(store.has_value(), "open");
    const std::uint64_t before = fs.written();  // making the first segment is not counted
    std::uint64_t records = 0;
    Writers writers(world, **store, 64, 1, 64 * 80);
    (void)writers.run();
    Writers again(world, **store, 64, 1, 64 * 80);
    (void)again.run();
    SessionFilter all;
    all.limit = 1000;
    for (const SessionSummary& row : (*store)->list(all)) {
        const auto lines = (*store)->read(row.id, 1, 100'000);
        for (const std::string& line : *lines)
            records += line.size() + 1;
    }
    figures.push_back({"store", "bytes written for each byte of record",
                       static_cast<double>(fs.written() - before), "bytes",
                       static_cast<double>(records), Goal::at_most, 3});
}

}  // namespace
}  // namespace rouse::bench

int main(int argc, char** argv) {
    using namespace rouse::bench;
    Sizes sizes;
    if (full_run()) {
        sizes.commits = 200'000;
        sizes.single_commits = 20'000;
        sizes.waiting = 100'000;
    }
    std::string only;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "--smoke") {
            sizes = {640, 80, 200, 1000, 200};
        } else {
            only = argument;
        }
    }
    std::vector<Figure> figures;
    if (only.empty() || only == "commits") bench_commits(sizes, figures);
    if (only.empty() || only == "commits") bench_slower_disk(sizes, figures);
    if (only.empty() || only == "opening") bench_opening(sizes, figures);
    if (only.empty() || only == "logs") bench_long_logs(sizes, figures);
    if (only.empty() || only == "bytes") bench_bytes(figures);
    print(figures);
    return 0;
}
