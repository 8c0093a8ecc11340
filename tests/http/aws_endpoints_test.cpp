// The endpoints of S3 and STS, from all the places that boto3 and other programs know.
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <stdlib.h>

#include <penstock/error.h>

#include "pipeline/http/aws_settings.h"
#include "tests/support/aws_environment.h"
#include "tests/support/errors.h"

namespace penstock::http {
namespace {

using test::expect_error;

class AwsEndpoints : public testing::Test, protected test::AwsEnvironment {};

TEST_F(AwsEndpoints, EndpointsInTheOrderOfBoto3) {
  EXPECT_EQ(usual_endpoint("s3"), "");
  config("[default]\nendpoint_url = http://profile\n");
  EXPECT_EQ(usual_endpoint("s3"), "http://profile");
  EXPECT_EQ(usual_endpoint("sts"), "http://profile");
  config("[default]\nendpoint_url = http://profile\ns3 =\n  endpoint_url = http://nested\n");
  EXPECT_EQ(usual_endpoint("s3"), "http://nested");
  EXPECT_EQ(usual_endpoint("sts"), "http://profile");
  config(
      "[default]\nservices = local\nendpoint_url = http://profile\n"
      "[services local]\ns3 =\n  endpoint_url = http://services\n"
      "dynamodb =\n  endpoint_url = http://other\n");
  EXPECT_EQ(usual_endpoint("s3"), "http://services");
  EXPECT_EQ(usual_endpoint("sts"), "http://profile");
  set("AWS_ENDPOINT_URL", "http://all");
  EXPECT_EQ(usual_endpoint("s3"), "http://all");
  set("AWS_ENDPOINT_URL_S3", "http://s3");
  EXPECT_EQ(usual_endpoint("s3"), "http://s3");
  EXPECT_EQ(usual_endpoint("sts"), "http://all");
  set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
  EXPECT_EQ(usual_endpoint("s3"), "");
}

TEST_F(AwsEndpoints, ServicesWithoutTheirSection) {
  config("[default]\nservices = lokal\n[services local]\ns3 =\n  endpoint_url = http://x\n");
  expect_error(ErrorCode::invalid_argument, "[services lokal]", [] { usual_endpoint("s3"); });
}

TEST_F(AwsEndpoints, VariablesOfOtherProgramsForEndpoints) {
  for (const char* name : {"S3_ENDPOINT", "S3_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_S3_ENDPOINT",
                           "AWS_S3_ENDPOINT_URL", "MLFLOW_S3_ENDPOINT_URL", "aws_endpoint"}) {
    SCOPED_TRACE(name);
    set(name, "http://minio:9000");
    expect_error(ErrorCode::invalid_argument, name, [] { usual_endpoint("s3"); });
    set("AWS_ENDPOINT_URL", "http://known");
    EXPECT_EQ(usual_endpoint("s3"), "http://known");
    ::unsetenv("AWS_ENDPOINT_URL");
    set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
    EXPECT_EQ(usual_endpoint("s3"), "");
    ::unsetenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    set(name, "");
    EXPECT_EQ(usual_endpoint("s3"), "");
    ::unsetenv(name);
  }
  for (const char* name : {"AWS_ENDPOINT_URL_DYNAMODB", "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                           "AWS_STS_REGIONAL_ENDPOINTS", "ENDPOINT"}) {
    set(name, "x");
    EXPECT_EQ(usual_endpoint("s3"), "") << name;
  }
}

TEST_F(AwsEndpoints, KeysOfOtherProgramsForEndpoints) {
  for (const char* key : {"endpoint", "s3_endpoint_url", "Endpoint-URL", "s3.endpoint"}) {
    SCOPED_TRACE(key);
    credentials("[default]\naws_access_key_id = A\n" + std::string(key) + " = http://minio\n");
    expect_error(ErrorCode::invalid_argument, "seems to name an endpoint",
                 [] { usual_endpoint("s3"); });
  }
  credentials("[default]\n[other]\nendpoint = http://minio\n");
  EXPECT_EQ(usual_endpoint("s3"), "");
  credentials(
      "[default]\ns3 =\n  use_dualstack_endpoint = false\nsts_regional_endpoints = legacy\n");
  EXPECT_EQ(usual_endpoint("s3"), "");
}

TEST_F(AwsEndpoints, OtherEndpointsOfAmazon) {
  for (const char* text :
       {"use_fips_endpoint = true\n", "use_dualstack_endpoint = True\n",
        "s3 =\n  use_dualstack_endpoint = true\n", "s3 =\n  use_accelerate_endpoint = TRUE\n"}) {
    SCOPED_TRACE(text);
    config("[default]\n" + std::string(text));
    expect_error(ErrorCode::invalid_argument, "is not supported: name the endpoint",
                 [] { usual_endpoint("s3"); });
    set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
    expect_error(ErrorCode::invalid_argument, "is not supported: name the endpoint",
                 [] { usual_endpoint("s3"); });
    ::unsetenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    set("AWS_ENDPOINT_URL_S3", "https://store");
    EXPECT_EQ(usual_endpoint("s3"), "https://store");
    ::unsetenv("AWS_ENDPOINT_URL_S3");
    if (std::string_view(text).starts_with("s3")) {
      EXPECT_EQ(usual_endpoint("sts"), "");
    } else {
      expect_error(ErrorCode::invalid_argument, "AWS_ENDPOINT_URL_STS: https://sts",
                   [] { usual_endpoint("sts"); });
    }
  }
  config("[default]\nuse_fips_endpoint = false\n");
  EXPECT_EQ(usual_endpoint("s3"), "");
  for (const char* name : {"AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"}) {
    set(name, "true");
    expect_error(ErrorCode::invalid_argument, name, [] { usual_endpoint("s3"); });
    expect_error(ErrorCode::invalid_argument, name, [] { usual_endpoint("sts"); });
    set(name, "false");
    EXPECT_EQ(usual_endpoint("s3"), "");
    ::unsetenv(name);
  }
}

TEST_F(AwsEndpoints, OtherEndpointsByRegion) {
  struct Row {
    const char *variable, *region, *service, *host;
  };
  constexpr Row kRows[] = {
      {"AWS_USE_FIPS_ENDPOINT", "us-gov-west-1", "s3",
       "https://s3-fips.us-gov-west-1.amazonaws.com"},
      {"AWS_USE_FIPS_ENDPOINT", "us-east-2", "sts", "https://sts-fips.us-east-2.amazonaws.com"},
      {"AWS_USE_DUALSTACK_ENDPOINT", "eu-west-1", "s3",
       "https://s3.dualstack.eu-west-1.amazonaws.com"},
      {"AWS_USE_DUALSTACK_ENDPOINT", "eu-west-1", "sts", "https://sts.eu-west-1.api.aws"},
      {"AWS_USE_DUALSTACK_ENDPOINT", "cn-north-1", "s3",
       "https://s3.dualstack.cn-north-1.amazonaws.com.cn"},
      {"AWS_USE_DUALSTACK_ENDPOINT", "cn-north-1", "sts",
       "https://sts.cn-north-1.api.amazonwebservices.com.cn"},
  };
  for (const Row& row : kRows) {
    set(row.variable, "true");
    set("AWS_REGION", row.region);
    expect_error(ErrorCode::invalid_argument, row.host, [&] { usual_endpoint(row.service); });
    ::unsetenv(row.variable);
  }
}

TEST_F(AwsEndpoints, SwitchesThatAreNeitherTrueNorFalse) {
  for (const char* value : {"1", "yes", "on", "ture", "0"}) {
    for (const char* name : {"AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT",
                             "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"}) {
      set(name, value);
      expect_error(ErrorCode::invalid_argument,
                   std::string(name) + " = " + value + " is neither true nor false",
                   [] { usual_endpoint("s3"); });
      ::unsetenv(name);
    }
    config("[default]\ns3 =\n  use_accelerate_endpoint = " + std::string(value) + "\n");
    expect_error(ErrorCode::invalid_argument, "s3.use_accelerate_endpoint of profile default",
                 [] { usual_endpoint("s3"); });
    config("[default]\n");
  }
}

}  // namespace
}  // namespace penstock::http
