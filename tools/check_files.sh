#!/usr/bin/env bash
# Refuses tracked files that name folders of one machine, generated or large ones, and pages that name source files, or link
# to files or headings, which do not exist.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

bad=0
if git grep -nIE '(^|[^A-Za-z0-9_.}~*-])/(work|root|tmp|home|Users)(/|[^A-Za-z0-9_-]|$)' -- ':!tools/check_files.sh'; then
  echo "check_files: the lines above name a folder of one machine" >&2
  bad=1
fi
if git ls-files | grep -E '(^|/)(build|__pycache__|\.cache)/|\.(o|a|so|pyc|profraw|orig|rej)$|compile_commands\.json$'; then
  echo "check_files: the files above are generated" >&2
  bad=1
fi
if git ls-files -z | xargs -0 -r sh -c 'find "$@" -maxdepth 0 -size +512k' sh | grep .; then
  echo "check_files: the files above are larger than 512 KiB" >&2
  bad=1
fi
# Worked examples make files of their own.
# shellcheck disable=SC2016  # the quotes are those of Markdown
named='`(include|pipelines?|staging|report|towers|cluster|tools|tests|bench)/[A-Za-z0-9_/.-]+\.(h|cpp|cuh?|py|sh|cmake|txt)`'
while IFS=: read -r page line name; do
  [ -e "$name" ] && continue
  echo "$page:$line: there is no $name"
  bad=1
done < <(git grep -noE "$named" -- '*.md' ':!docs/extending.md' ':!CHANGELOG.md' ':!docs/adr' | tr -d '`')
# Relative links and their anchors, by GitHub's rule for the anchors of headings. Code is skipped.
# shellcheck disable=SC2016  # the dollars are Perl's
git ls-files -z '*.md' ':!bench/results' ':!CHANGELOG.md' | xargs -0 -r perl -CSD -e '
  sub text_of {  # a page without its code; all lines keep their numbers
    open(my $in, "<", shift) or return "";
    my ($fence, $text) = ("", "");
    while (my $line = <$in>) {
      if ($fence) {
        $fence = "" if $line =~ /^\s*(`{3,}|~{3,})\s*$/ && index($1, $fence) == 0;
        $line = "\n";
      } elsif ($line =~ /^\s*(`{3,}|~{3,})/) {
        $fence = $1;
        $line = "\n";
      }
      $text .= $line;
    }
    return $text;
  }
  my %anchors;
  sub anchors_of {
    my $page = shift;
    return $anchors{$page} if $anchors{$page};
    my %seen;
    for (text_of($page) =~ /^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$/mg) {
      s/!?\[([^\]]*)\]\([^)]*\)/$1/g;
      my $slug = lc;
      $slug =~ s/[^\w\- ]//g;
      $slug =~ tr/ /-/;
      my $unique = $slug;
      $unique = "$slug-" . ++$seen{$slug} while exists $seen{$unique};
      $seen{$unique} = 0;
    }
    return $anchors{$page} = \%seen;
  }
  my $bad = 0;
  for my $page (grep { -f } @ARGV) {
    my ($folder) = $page =~ m{^(.*/)};
    my $text = text_of($page);
    $text =~ s/(?<!`)(`+)(?!`)((?:(?!\n\s*\n).)+?)(?<!`)\1(?!`)/"x" . "\n" x ($2 =~ tr{\n}{})/gse;
    while ($text =~ /\]\(\s*<?([^()\s<>]+)>?(?:\s+"[^"]*")?\s*\)|^ {0,3}\[[^\]\n]+\]:\s*(\S+)/mg) {
      my $link = $1 // $2;
      my $line = 1 + (substr($text, 0, $-[0]) =~ tr/\n//);
      next if $link =~ m{^([a-z][a-z0-9+.-]*:|//)}i;
      my ($path, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
      my $file = $path eq "" ? $page : $path =~ m{^/(.*)} ? $1 : ($folder // "") . $path;
      1 while $file =~ s{(^|/)(?!\.\.?/)[^/]+/\.\./}{$1};
      if (! -e $file) {
        print "$page:$line: there is no $file\n";
      } elsif (defined $anchor && $file =~ /\.md$/ && ! exists anchors_of($file)->{$anchor}) {
        print "$page:$line: $file has no heading #$anchor\n";
      } else {
        next;
      }
      $bad = 1;
    }
  }
  exit $bad;
' || bad=1
exit $bad
