#include "tools/penstock/commands/remote_flags.h"

namespace penstock::tool {

RemoteFlags::RemoteFlags(CLI::App& app) {
  const char* const group = "Servers";
  app.add_option("--s3-endpoint", options_.s3_endpoint,
                 "URL of an S3-compatible service (default: $AWS_ENDPOINT_URL, or AWS)")
      ->type_name("URL")
      ->group(group);
  app.add_option("--s3-region", options_.s3_region,
                 "region of s3:// buckets (default: $AWS_REGION, the profile's, or us-east-1)")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--s3-addressing", options_.s3_addressing,
                 "where requests put the bucket's name: before the host name or in the path "
                 "(default auto: the profile's setting, else virtual for AWS and path elsewhere)")
      ->check(CLI::IsMember({"auto", "virtual", "path"}))
      ->type_name("auto|virtual|path")
      ->group(group);
  app.add_flag("--requester-pays", options_.requester_pays, "pay for requests to s3:// buckets")
      ->group(group);
  app.add_option("--retries", options_.retries,
                 "how often to retry a request after a transient failure (default 5)")
      ->check(CLI::Range(0, 1000))
      ->type_name("N")
      ->group(group);
  app.add_flag("--insecure", options_.insecure, "accept any server certificate")->group(group);
}

}  // namespace penstock::tool
