// URLs: what they are made of, what they mean on a page, and what of them may be shown.
#include "pipeline/io/url.h"

#include <gmock/gmock.h>

#include <penstock/error.h>
#include <penstock/remote_files.h>

#include "pipeline/http/basic_auth.h"
#include "pipeline/http/name_list.h"
#include "pipeline/io/secrets.h"

namespace penstock::http {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Url, HasParts) {
  const Url url = parse_url("HTTPS://me:pa%3Ass@Example.COM:8443/a b/ä.tar?X-Sig=a/b#part");
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.userinfo, "me:pa%3Ass");
  EXPECT_EQ(url.host, "example.com");
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.path, "/a%20b/%C3%A4.tar");
  EXPECT_EQ(url.query, "X-Sig=a/b");
  EXPECT_EQ(url.shown(), "https://example.com:8443/a%20b/%C3%A4.tar");
  EXPECT_EQ(url.whole(), "https://example.com:8443/a%20b/%C3%A4.tar?X-Sig=a/b");
}

TEST(Url, LeavesOutTheUsualPort) {
  EXPECT_EQ(parse_url("http://h:80").shown(), "http://h/");
  EXPECT_EQ(parse_url("https://h:443/x").shown(), "https://h/x");
  EXPECT_EQ(parse_url("https://h:80/x").shown(), "https://h:80/x");
  EXPECT_EQ(parse_url("http://[::1]:81/x").shown(), "http://[::1]:81/x");
  EXPECT_EQ(parse_url("http://h?a=b").whole(), "http://h/?a=b");
}

TEST(Url, RefusesWhatIsNone) {
  for (const char* text :
       {"http://", "http:///a", "http://h:0/", "http://h:99999/", "http://h:x/", "http://a b/",
        "ftp://h/a", "http://h\"/", "http://[x]/", "http://:80/"}) {
    EXPECT_THROW(parse_url(text), Error) << text;
  }
}

TEST(Url, SecretsInErrors) {
  for (const char* text : {"http://me:secret@/a?secret", "http://me:secret@h:x/a?secret"}) {
    try {
      parse_url(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
    }
  }
}

TEST(Url, References) {
  const Url base = parse_url("http://h/a/b/list.txt?q");
  const std::pair<const char*, const char*> table[] = {
      {"c.tar", "http://h/a/b/c.tar"}, {"../c", "http://h/a/c"},        {"/c", "http://h/c"},
      {"//other/c", "http://other/c"}, {"https://h/c", "https://h/c"},  {"./c/", "http://h/a/b/c/"},
      {"../../../c", "http://h/c"},    {"c?x=1", "http://h/a/b/c?x=1"}, {"a:b", "http://h/a/b/a:b"},
  };
  for (const auto& [reference, meant] : table)
    EXPECT_EQ(resolve(base, reference).whole(), meant) << reference;
  EXPECT_THROW(resolve(base, "file:///etc/passwd"), Error);
  EXPECT_THROW(resolve(base, "ftp://h/a"), Error);
}

TEST(Secrets, AreReplacedAndFoundAgain) {
  const std::string url = "https://me:pw@h/a.tar?X-Amz-Signature=0123";
  const std::string shown = hide_secrets(url);
  EXPECT_THAT(shown, Not(HasSubstr("Signature")));
  EXPECT_THAT(shown, Not(HasSubstr("pw")));
  EXPECT_THAT(shown, HasSubstr("https://h/a.tar?hidden-"));
  EXPECT_EQ(hide_secrets(shown), shown);
  EXPECT_EQ(reveal(shown).whole(), "https://h/a.tar?X-Amz-Signature=0123");
  EXPECT_EQ(reveal(shown).userinfo, "me:pw");
  EXPECT_NE(hide_secrets("https://h/a.tar?other"), shown);
  EXPECT_EQ(hide_secrets("https://h/a.tar"), "https://h/a.tar");
  EXPECT_EQ(hide_secrets("a?b"), "a?b");
  EXPECT_THROW(reveal("https://h/a.tar?hidden-0000000000000000"), Error);
  EXPECT_EQ(scrubbed("a secret and a secret", {"secret", ""}), "a … and a …");
}

TEST(Secrets, BasicCredentials) {  // RFC 7617's example, and lengths of all remainders
  EXPECT_EQ(basic_credentials("Aladdin:open%20sesame"), "QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
  EXPECT_EQ(basic_credentials(""), "");
  EXPECT_EQ(basic_credentials("a"), "YQ==");
  EXPECT_EQ(basic_credentials("ab"), "YWI=");
  EXPECT_EQ(basic_credentials("abc"), "YWJj");
}

TEST(NameList, HasNamesInOrder) {
  EXPECT_THAT(parse_name_list("# of what\nb.tar\r\n\na.tar\nb.tar\nhttp://other/x\n",
                              "http://h/data/list.txt"),
              ElementsAre("http://h/data/a.tar", "http://h/data/b.tar", "http://other/x"));
  EXPECT_THAT(parse_name_list("http://h/x", "list.txt"), ElementsAre("http://h/x"));
  try {
    parse_name_list("http://h/x\nb.tar\n", "list.txt");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("line 2 of the list"));
  }
}

TEST(NameList, KnowsPatterns) {
  EXPECT_TRUE(is_url_pattern("http://h/a-*.tar"));
  EXPECT_TRUE(is_url_pattern("http://h/a[12]"));
  EXPECT_FALSE(is_url_pattern("http://h/a?b=*"));
  EXPECT_FALSE(is_url_pattern("http://[::1]/a"));
}

}  // namespace
}  // namespace penstock::http
