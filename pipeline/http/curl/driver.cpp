#include "pipeline/http/curl/driver.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include <openssl/crypto.h>
#include <unistd.h>

#include <penstock/error.h>
#include <penstock/internal/start_thread.h>

#include "pipeline/http/address.h"

namespace penstock::http {
namespace {

constexpr long kConnectMs = 10'000;
constexpr long kLeastPerSecond = 1024;
constexpr long kBufferBytes = 32 << 10;  // of each request in flight, outside of budgets

std::string_view without_end(std::string_view line) noexcept {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

/// As curl's program does; libcurl itself reads none of these variables.
std::string ca_file_of(const TransportOptions& options) {
  if (!options.ca_file.empty()) return options.ca_file;
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (const char* const value = std::getenv(name); value != nullptr && *value != 0) return value;
  return {};
}

/// Returns true for failures that a retry would meet again.
bool is_lasting(CURLcode code) noexcept {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return true;
    default:
      return false;
  }
}

/// Returns true if the environment names a proxy, so that a connection's address tells nothing.
bool has_proxy() noexcept {
  for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})
    if (const char* const value = std::getenv(name); value != nullptr && *value != 0) return true;
  return false;
}

/// Returns the host of a URL as libpenstock makes it.
std::string_view host_of(std::string_view url) noexcept {
  url = url.substr(std::min(url.size(), url.find("//") + 2));
  url = url.substr(0, url.find_first_of("/?"));
  const std::size_t colon = url.rfind(':');
  const bool has_port = colon != url.npos && url.find(']', colon) == url.npos;
  return url.substr(0, has_port ? colon : url.npos);
}

}  // namespace

struct CurlDriver::Exchange {
  HttpRequest request;
  std::uint64_t number = 0;
  HttpSink* sink = nullptr;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  bool stopped = false;
  bool refused = false;  // its server's address
  std::uint64_t body_bytes = 0;
  std::size_t place = 0;  // in under_way_
  std::array<char, CURL_ERROR_SIZE> said{};

  ~Exchange() { curl_slist_free_all(headers); }
};

CurlDriver::CurlDriver(TransportOptions options)
    : options_(std::move(options)), process_(::getpid()) {
  static const CURLcode ready = [] {
    // A thread may be reading when the process exits, and OpenSSL's cleanup would free its data.
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
    return curl_global_init(CURL_GLOBAL_DEFAULT);
  }();
  multi_ = ready == CURLE_OK ? curl_multi_init() : nullptr;
  if (multi_ == nullptr) throw Error(ErrorCode::resource_exhausted, "libcurl can't be started");
  const auto most = static_cast<long>(options_.connections);
  curl_multi_setopt(multi_, CURLMOPT_MAX_TOTAL_CONNECTIONS, most);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, most);
  curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
  try {
    thread_ = start_thread("reading from servers", [this] { run(); });
  } catch (...) {
    curl_multi_cleanup(multi_);
    throw;
  }
}

CurlDriver::~CurlDriver() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  curl_multi_wakeup(multi_);
  thread_.join();
  for (CURL* easy : idle_) curl_easy_cleanup(easy);
  curl_multi_cleanup(multi_);
}

std::uint64_t CurlDriver::start(const HttpRequest& request, HttpSink& sink) {
  if (::getpid() != process_)
    throw Error(
        ErrorCode::unavailable,
        "this process was forked from one that reads from servers, so it can't read from them");
  auto exchange = std::make_unique<Exchange>();
  exchange->request = request;
  exchange->sink = &sink;
  std::uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    number = exchange->number = ++last_number_;
    new_.push_back(std::move(exchange));
  }
  curl_multi_wakeup(multi_);
  return number;
}

void CurlDriver::cancel(std::uint64_t number) noexcept {
  try {
    const MutexLock lock(mutex_);
    cancelled_.push_back(number);
  } catch (...) {  // no memory: it ends by itself
    return;
  }
  curl_multi_wakeup(multi_);
}

void CurlDriver::run() noexcept {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (stopping_) break;
    }
    begin_new();
    end_cancelled();
    int running = 0;
    curl_multi_perform(multi_, &running);
    int queued = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &queued)) {
      if (message->msg == CURLMSG_DONE) finish(message->easy_handle, message->data.result);
    }
    curl_multi_poll(multi_, nullptr, 0, 1000, nullptr);
  }
  give_up();
}

void CurlDriver::begin_new() noexcept {
  while (true) {
    std::unique_ptr<Exchange> exchange;
    {
      const MutexLock lock(mutex_);
      if (new_.empty()) return;
      exchange = std::move(new_.front());
      new_.pop_front();
    }
    begin(std::move(exchange));
  }
}

void CurlDriver::end_cancelled() noexcept {
  std::vector<std::uint64_t> numbers;
  {
    const MutexLock lock(mutex_);
    numbers.swap(cancelled_);
  }
  for (const std::uint64_t number : numbers) {
    const auto found = std::find_if(under_way_.begin(), under_way_.end(),
                                    [&](const Exchange* one) { return one->number == number; });
    if (found != under_way_.end()) finish((*found)->easy, CURLE_ABORTED_BY_CALLBACK);
  }
}

void CurlDriver::begin(std::unique_ptr<Exchange> exchange) noexcept {
  bool well = true;
  try {
    under_way_.reserve(under_way_.size() + 1);
    idle_.reserve(options_.connections);
    const auto add = [&](const char* header) {
      curl_slist* const longer = curl_slist_append(exchange->headers, header);
      if (longer == nullptr) throw std::bad_alloc();
      exchange->headers = longer;
    };
    for (const std::string& header : exchange->request.headers) add(header.c_str());
    add("Expect:");  // asking first whether a body may come costs a round trip, or a second
    if (idle_.empty()) {
      exchange->easy = curl_easy_init();
    } else {
      exchange->easy = idle_.back();
      idle_.pop_back();
      curl_easy_reset(exchange->easy);
    }
    if (exchange->easy == nullptr) throw std::bad_alloc();
    const auto set = [&](auto option, auto value) {
      if (curl_easy_setopt(exchange->easy, option, value) != CURLE_OK) well = false;
    };
    const HttpRequest& request = exchange->request;
    set(CURLOPT_URL, request.url.c_str());
    if (request.method == "HEAD") set(CURLOPT_NOBODY, 1L);
    if (request.method != "GET") set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    // Requests without a body need a length, too: services refuse them otherwise.
    if (const std::string_view body = request.sent();
        !body.empty() || request.method == "PUT" || request.method == "POST") {
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
      set(CURLOPT_POSTFIELDS, body.empty() ? "" : body.data());
    }
    set(CURLOPT_HTTPHEADER, exchange->headers);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_TCP_NODELAY, 1L);
    set(CURLOPT_BUFFERSIZE, kBufferBytes);
    set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
    set(CURLOPT_LOW_SPEED_LIMIT, kLeastPerSecond);
    set(CURLOPT_LOW_SPEED_TIME,
        static_cast<long>(std::max<std::int64_t>(1, (request.stall.count() + 999) / 1000)));
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    set(CURLOPT_USERAGENT, options_.user_agent.c_str());
    set(CURLOPT_ERRORBUFFER, exchange->said.data());
    set(CURLOPT_PRIVATE, static_cast<void*>(exchange.get()));
    set(CURLOPT_HEADERFUNCTION, &CurlDriver::on_head);
    set(CURLOPT_HEADERDATA, static_cast<void*>(exchange.get()));
    set(CURLOPT_WRITEFUNCTION, &CurlDriver::on_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(exchange.get()));
    if (request.public_only && !has_proxy()) {
      set(CURLOPT_OPENSOCKETFUNCTION, &CurlDriver::on_socket);
      set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(exchange.get()));
      set(CURLOPT_PREREQFUNCTION, &CurlDriver::on_connection);  // of one that is used again
      set(CURLOPT_PREREQDATA, static_cast<void*>(exchange.get()));
    }
    const std::string ca_file = ca_file_of(options_);
    if (!ca_file.empty()) set(CURLOPT_CAINFO, ca_file.c_str());
    set(CURLOPT_SSL_VERIFYPEER, options_.insecure ? 0L : 1L);
    set(CURLOPT_SSL_VERIFYHOST, options_.insecure ? 0L : 2L);
    well = well && curl_multi_add_handle(multi_, exchange->easy) == CURLM_OK;
  } catch (...) {
    well = false;
  }
  if (!well) {
    if (exchange->easy != nullptr) curl_easy_cleanup(exchange->easy);
    exchange->sink->done({.failure = "libcurl has no memory for another request"});
    return;
  }
  exchange->place = under_way_.size();
  under_way_.push_back(exchange.release());
}

void CurlDriver::finish(CURL* easy, CURLcode code) noexcept {
  char* own = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &own);
  const std::unique_ptr<Exchange> exchange(reinterpret_cast<Exchange*>(own));
  under_way_.back()->place = exchange->place;
  under_way_[exchange->place] = under_way_.back();
  under_way_.pop_back();
  HttpEnd end;
  end.complete = code == CURLE_OK;
  end.stopped = exchange->stopped;
  end.lasting = is_lasting(code) || stays_unresolved(exchange->request.url, code);
  const char* ip = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &ip);
  const bool tells = ip != nullptr && *ip != 0 && !has_proxy();
  end.private_peer = is_private_host(tells ? ip : host_of(exchange->request.url));
  end.failure = exchange->said[0] != 0 ? exchange->said.data() : curl_easy_strerror(code);
  end.body_bytes = exchange->body_bytes;
  curl_off_t sent = 0;
  curl_off_t first = 0;
  curl_off_t total = 0;
  curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &sent);
  curl_easy_getinfo(easy, CURLINFO_STARTTRANSFER_TIME_T, &first);
  curl_easy_getinfo(easy, CURLINFO_TOTAL_TIME_T, &total);
  end.first_byte_s = 1e-6 * static_cast<double>(std::max<curl_off_t>(0, first - sent));
  end.total_s = 1e-6 * static_cast<double>(std::max<curl_off_t>(0, total - sent));
  if (exchange->refused) {
    end.lasting = true;
    end.failure = "a public server redirects to an address of a private network, which is refused";
  }
  // libcurl writes to no buffer any more once the handle is removed.
  curl_multi_remove_handle(multi_, easy);
  // After a failure, libcurl 7.88 may keep a handle's buffer, and refuses to use it again.
  if (code == CURLE_OK && idle_.size() < options_.connections) {
    idle_.push_back(easy);  // has room, see `begin`
  } else {
    curl_easy_cleanup(easy);
  }
  exchange->sink->done(end);
}

// A name server that fails for a moment says the same as one that knows no such host. A host that
// was reached before, or that has been unknown for less than a second, may be found again.
bool CurlDriver::stays_unresolved(const std::string& url, CURLcode code) noexcept try {
  constexpr std::chrono::seconds kDoubt(1);
  const auto now = std::chrono::steady_clock::now();
  const std::string origin = url.substr(0, url.find('/', url.find("//") + 2));
  constexpr std::size_t kMostHosts = 1000;
  if (hosts_.size() >= kMostHosts) hosts_.clear();
  const auto [known, is_new] = hosts_.try_emplace(origin, Host{now, false});
  if (code != CURLE_COULDNT_RESOLVE_HOST) {
    known->second.reached = known->second.reached || code == CURLE_OK;
    return false;
  }
  return !known->second.reached && now - known->second.first_asked >= kDoubt;
} catch (...) {  // no memory
  return false;
}

void CurlDriver::give_up() noexcept {
  while (!under_way_.empty()) finish(under_way_.back()->easy, CURLE_ABORTED_BY_CALLBACK);
  const MutexLock lock(mutex_);
  for (const auto& exchange : new_) exchange->sink->done({.failure = "reading was ended"});
  new_.clear();
}

std::size_t CurlDriver::on_head(char* data, std::size_t size, std::size_t count, void* exchange) {
  auto& own = *static_cast<Exchange*>(exchange);
  if (own.sink->head_line(without_end({data, size * count}))) return size * count;
  own.stopped = true;
  return 0;
}

std::size_t CurlDriver::on_body(char* data, std::size_t size, std::size_t count, void* exchange) {
  auto& own = *static_cast<Exchange*>(exchange);
  own.body_bytes += size * count;
  if (own.sink->body(std::as_bytes(std::span(data, size * count)))) return size * count;
  own.stopped = true;
  return 0;
}

curl_socket_t CurlDriver::on_socket(void* exchange, curlsocktype, curl_sockaddr* address) {
  if (is_private(address->addr)) {
    static_cast<Exchange*>(exchange)->refused = true;
    return CURL_SOCKET_BAD;
  }
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

int CurlDriver::on_connection(void* exchange, char* ip, char*, int, int) {
  if (!is_private_host(ip)) return CURL_PREREQFUNC_OK;
  static_cast<Exchange*>(exchange)->refused = true;
  return CURL_PREREQFUNC_ABORT;
}

}  // namespace penstock::http
