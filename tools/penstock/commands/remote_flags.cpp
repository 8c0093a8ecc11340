#include "tools/penstock/commands/remote_flags.h"

namespace penstock::tool {

RemoteFlags::RemoteFlags(CLI::App& app) {
  const char* const group = "Servers";
  app.add_option("--s3-endpoint", options_.s3_endpoint,
                 "URL of what speaks S3's protocol (default: $AWS_ENDPOINT_URL, or AWS)")
      ->type_name("URL")
      ->group(group);
  app.add_option("--s3-region", options_.s3_region,
                 "of s3:// (default: $AWS_REGION, the profile's, or us-east-1)")
      ->type_name("NAME")
      ->group(group);
  app.add_option("--s3-addressing", options_.s3_addressing,
                 "where the bucket's name stands in requests: in front of the host or in the path "
                 "(default auto: the profile's, else virtual at AWS and path elsewhere)")
      ->check(CLI::IsMember({"auto", "virtual", "path"}))
      ->type_name("auto|virtual|path")
      ->group(group);
  app.add_flag("--requester-pays", options_.requester_pays, "pay for requests of s3://")
      ->group(group);
  app.add_option("--retries", options_.retries,
                 "times that a request is done again which failed for the moment (default 5)")
      ->check(CLI::Range(0, 1000))
      ->type_name("N")
      ->group(group);
  app.add_flag("--insecure", options_.insecure, "take any certificate of a server")->group(group);
}

}  // namespace penstock::tool
