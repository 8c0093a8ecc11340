#!/usr/bin/perl
# Two steps of tools/site.sh, in the root of the tree.
#
#     tools/site.pl FILE            prints FILE as Doxygen reads it: the INPUT_FILTER of docs/Doxyfile
#     tools/site.pl --finish SITE   adds the files that pages link to, and checks every link
#
# Pages get GitHub's anchors. Headers get what is plain to a reader, but not to Doxygen: their group,
# and the comment of the overload above. All lines keep their numbers.
use strict;
use warnings;
use Cwd qw(getcwd);
use File::Basename qw(basename dirname);
use File::Path qw(make_path);
use open qw(:std :encoding(UTF-8));

my $root = getcwd();
my $is_page = qr{^(?:(?:README|SECURITY|CHANGELOG|CONTRIBUTING)\.md|docs/(?:adr/)?[^/]+\.md|bench/results/[^/]+\.md)$};
my $is_example = qr{^examples/[^/]+\.(?:c|cpp|cu)$};
my $is_header = qr{^include/penstock/(?!internal/).*\.h$};

sub read_file {
  my $name = shift;
  open(my $in, "<", $name) or die "$name: $!\n";
  local $/;
  return scalar <$in>;
}
sub write_file {
  my ($name, $text) = @_;
  make_path(dirname($name));
  open(my $out, ">", $name) or die "$name: $!\n";
  print $out $text;
  close($out) or die "$name: $!\n";
}
sub plain_path {  # a/b/../c without the dots
  my $path = shift;
  $path =~ s{(^|/)\./}{$1}g;
  1 while $path =~ s{(^|/)(?!\.\.?/)[^/]+/\.\.(?:/|$)}{$1};
  return $path =~ s{/+$}{}r;
}

# ---- Addresses ----

sub page_name {  # docs/stages.md: page-stages; docs/adr/order.md: page-adr-order
  my $path = shift;
  return "mainpage" if $path eq "README.md";
  return "page-documentation" if $path eq "docs/README.md";
  $path =~ s{^(?:docs|bench)/|\.md$}{}g;
  return "page-" . lc($path =~ s{/README$}{}r =~ tr{/}{-}r);
}
sub doxygen_name { return $_[0] =~ s/_/__/gr =~ s/\./_8/gr; }  # of the page of a file

# The address, within the site, of a file or folder of the tree.
sub address_of {
  my $path = shift;
  return $path eq "README.md" ? "index.html" : page_name($path) . ".html" if $path =~ $is_page;
  return basename($path) =~ s/\./_8/r . "-example.html" if $path =~ $is_example;
  return doxygen_name(basename($path)) . ".html" if $path =~ $is_header;
  return "examples.html" if $path eq "examples";
  return $path eq "bench/results" ? "page-results.html" : "source/$path.html";
}
sub address {  # of a page's link
  my ($page, $link) = @_;
  return $link if $link =~ m{^(?:[a-z][a-z0-9+.-]*:|//)}i;
  my ($path, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
  my $target = $path eq "" ? $page : plain_path(dirname($page) . "/$path");
  return address_of($target) . (defined $anchor && $target =~ $is_page ? "#" . page_name($target) . "-$anchor" : "");
}

# ---- Pages ----

# The stages and sources of a dataset: their names, and Doxygen's.
sub stages {
  my %stages;
  for my $header (map { read_file("include/penstock/$_.h") } qw(dataset sources image_records)) {
    $stages{$_} = "penstock::$_" for $header =~ /^(?:inline )?Dataset (\w+)\(/gm;
    $stages{$_} = "penstock::Dataset::$_" for $header =~ /^  (?:Dataset|std::pair<Dataset, Dataset>) (\w+)\(/gm;
  }
  return %stages;
}

sub filter_page {
  my ($page, $text) = @_;
  my $lists_pages = $page =~ m{^docs/(?:adr/)?README\.md$};
  my %stages = $page eq "docs/stages.md" ? stages() : ();
  # Doxygen would make a picture's text its caption.
  $text =~ s{!\[([^\]]+)\]\((\S+?)\)}{
    my ($alt, $file) = ($1, basename($2));
    "<img src=\"$file\" alt=\"" . $alt =~ s/\s+/ /gr . "\"/>" . "\n" x ($alt =~ tr/\n//)
  }ge;
  my ($fence, $titled, $out, %seen, %child) = ("", 0, "");
  for my $line (split /^/, $text) {
    if ($fence) {
      $fence = "" if $line =~ /^\s*(`{3,}|~{3,})\s*$/ && index($1, $fence) == 0;
    } elsif ($line =~ /^\s*(`{3,}|~{3,})/) {
      $fence = $1;
    } else {
      # Text, code, its quote, text …
      my @parts = split /((?<!`)(`+)(?!`).*?(?<!`)\2(?!`))/, $line;
      for (my $i = 0; $i < @parts; $i += 3) {
        # Pages that are listed are below the list in the sidebar.
        $parts[$i] =~ s{\[([\w./-]+)\]\(([\w./-]+\.md)\)}{
          my $target = plain_path(dirname($page) . "/$2");
          $child{$target}++ ? $& : "\@subpage " . page_name($target) . " \"$1\""
        }ge if $lists_pages && $line =~ /^\|/;
        $parts[$i] =~ s/\]\(([^()\s<>]+)\)/"](" . address($page, $1) . ")"/ge;
        # Doxygen takes `a'b' for a quotation.
        $parts[$i + 1] =~ s/^`(?!`)(.*')/``$1/ && $parts[$i + 1] =~ s/$/`/ if $i + 1 < @parts;
        # A stage in the first column of a table leads to the reference.
        next unless %stages && $i + 1 < @parts && join("", @parts[0 .. $i]) =~ /^\|[^|]*$/;
        $parts[$i + 1] =~ s{^`(a\.)?(\w+)(\(.*`)$}{
          exists $stages{$2} ? ($1 // "") . "[$2](\@ref $stages{$2})`$3" : $&
        }e;
      }
      $line = join "", map { $parts[$_] } grep { $_ % 3 != 2 } 0 .. $#parts;
      if ($line =~ /^(#{1,6})[ \t]+(.*?)[ \t]*#*\s*$/) {
        my ($level, $title) = ($1, $2);
        $title =~ s/`//g;  # Doxygen would show the tags of code
        my $slug = lc($title) =~ s/[^\w\- ]//gr =~ tr/ /-/r;
        my $anchor = exists $seen{$slug} ? "$slug-" . $seen{$slug}++ : $slug;
        $seen{$slug} //= 1;
        $line = "$level $title {#" . page_name($page) . ($titled++ ? "-$anchor" : "") . "}\n";
      }
    }
    $out .= $line;
  }
  return $out;
}

# ---- Headers ----

# The group that docs/reference.dox puts a header in.
sub group_of {
  my $header = shift;
  my $name = $header =~ s{^include/penstock/}{}r;
  my $dox = read_file("docs/reference.dox");
  my $best;
  while ($dox =~ /\@defgroup (\w+)(.*?)\*\//gs) {
    my ($group, $text) = ($1, $2);
    for my $listed ($text =~ /Headers:(.*)/s ? split(" ", $1) : ()) {
      return $group if $listed eq $name;
      $best = $group if index($name, "$listed/") == 0 && (!$best || $listed =~ m{/});
    }
  }
  return $best // die "$header: warning: no group of docs/reference.dox lists it\n";
}

# The text of a comment, with links, and without what Doxygen takes for commands, tags and links.
sub filter_comment {
  my ($header, $line) = @_;
  return $line if $line =~ m{^\s*///\s{4}};  # code
  my $class = $header =~ /stage_options/ ? "Dataset::" : "";
  $line =~ s/(?<!`)\\(?=[a-z])|<(?=dtype>)|(?<=\{)#/\\$&/g;
  $line =~ s/`(make_\w+)`/$1()/g;
  $line =~ s/(The options of) `((?!\w+_from)\w+)`/$1 $class$2()/;
  $line =~ s{(?<![\w/])docs/([\w-]+)\.md}{-f $& ? "[$&](page-$1.html)" : $&}ge;
  return $line;
}

# One declaration for each name: of T a = …, b = …; and of enum class T { … } a = …; with the comment
# behind it, or else that above it.
sub split_declaration {
  my ($line, $comment) = @_;
  my $one = qr/\w+(?: = [^,;{}()]+|\{[^,{}]*\})?/;
  return "$1; /** $comment */ $2 $3" if $line =~ /^(\s*enum class (\w+) .*\}) (\w+.*;)/;
  return $line unless $line =~ m{^(\s+)(?!return)([\w:]+(?:<[\w:, ]+>)?) ((?:$one, )+$one);(?:\s*///< (.*))?$};
  my ($indent, $type, $names, $behind) = ($1, $2, $3, $4);
  my ($first, @others) = split /, /, $names;
  return $indent . join " ", map { "$type $_; /**< $behind */" } $first, @others if defined $behind;
  return $indent . join " ", "$type $first;", map { $comment ? "/** $comment */ $type $_;" : "$type $_;" } @others;
}

# The comment of a function that has none: its form says what it does, or it is that of the overload above.
sub comment_of {
  my ($line, $overload) = @_;
  return "Deleted." if $line =~ /= delete;/;
  return "Moves." if $line =~ /^\s*(\w+)\(\1&&/ || $line =~ /\boperator=\(\w+&&/;
  return "Copies." if $line =~ /^\s*(\w+)\(const \1&/ || $line =~ /\boperator=\(const /;
  return "Compares all members." if $line =~ /^\s*friend .*\boperator(?:==|<=>).* = default;/;
  return $overload;
}

sub filter_header {
  my ($header, $text) = @_;
  my @lines = split /\n/, $text;
  my $is_c = $header =~ m{/c\.h$};
  my $template = qr/^\s*(?:template|requires)\b/;
  my ($comment, $function, $overload) = ("", "", "");  # above this line; the function above, and its comment
  for my $i (0 .. $#lines) {
    $lines[$i] = filter_comment($header, $lines[$i]) if $is_c || $lines[$i] =~ m{^//|///};
    if ($lines[$i] =~ m{^\s*///(?!<) ?(.*)}) {
      $comment .= ($comment && " ") . $1;
    } elsif ($lines[$i] =~ /^\s*$/) {
      ($comment, $function) = ("", "");
    } else {
      $lines[$i] = split_declaration($lines[$i], $comment);
      my ($declaration) = grep { !/$template/ } @lines[$i .. $#lines];
      if (($declaration // "") =~ /^(\s*)(?:[\w:<>&*,\[\] ]*[\s&*])?(operator *[^\s(]+|~?\w+)\(/) {
        my $name = "$1$2";
        my $other = comment_of($lines[$i], $name eq $function ? $overload : "");
        if ($comment) {
          ($function, $overload) = ($name, $comment);
        } elsif ($other && $lines[$i - 1] !~ m{^(?:/\*\*.*\*/)?\s*(?:template|requires)\b}) {
          $lines[$i] = "/** $other */ $lines[$i]";
        }
      }
      $comment = "" if $lines[$i] !~ /$template/;
    }
  }
  # The first comment is about the header. Doxygen takes no code and no links in it.
  $lines[0] =~ s{^// |^/\* }{$is_c ? "/** \@about " : "// \@about "}e;
  for (my $i = 0; $lines[$i] =~ s{^//(?= |$)}{///}; ++$i) {
    $lines[$i] =~ s/`//g;
    $lines[$i] =~ s/\b(?=\w+::\w)/%/g;
  }
  my ($open, $close) = (qr/^namespace penstock/, qr{^\}  // namespace penstock});
  ($open, $close) = (qr/^#include <stdint/, qr/^#endif$/) if $is_c;
  my ($first) = grep { $lines[$_] =~ $open } 0 .. $#lines;
  my ($last) = grep { $lines[$_] =~ $close } reverse 0 .. $#lines;
  if (defined $first && defined $last) {
    $lines[$first] .= " /** \@addtogroup " . group_of($header) . " */ /** \@{ */";
    $lines[$last] = "/** \@} */" . ($is_c ? "\n" : " ") . $lines[$last];
  }
  return join("\n", @lines) . "\n";
}

sub filter_dox {
  my $text = shift;
  $text =~ s/^ *Headers:[^*]*(?= \*\/)//gm;
  $text =~ s{^ *\@subpages (\S+)}{join "\n", map { "- \@subpage " . page_name($_) } glob("$1/*.md")}gme;
  return $text;
}

# ---- The end of the site ----

sub escape { return $_[0] =~ s/&/&amp;/gr =~ s/</&lt;/gr =~ s/>/&gt;/gr =~ s/"/&quot;/gr; }

# Writes the page of a file or a folder that is no page of Doxygen's.
sub write_source {
  my ($site, $path) = @_;
  my $up = "../" x (1 + ($path =~ tr{/}{}));
  my ($title, $body) = (escape($path), "");
  if (-d $path) {
    opendir(my $folder, $path) or die "$path: $!\n";
    for my $name (grep { !/^\.|^__pycache__$/ && (-d "$path/$_" || -T "$path/$_") } sort readdir $folder) {
      $body .= "<li><a href=\"$up" . address_of("$path/$name") . "\">" . escape($name) . "</a></li>\n";
    }
    $body = "<ul>$body</ul>";
  } else {
    $body = "<pre class=\"fragment\">" . escape(read_file($path)) . "</pre>";
  }
  write_file("$site/source/$path.html", <<END);
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Penstock: $title</title>
<link href="${up}doxygen.css" rel="stylesheet"><link href="${up}site.css" rel="stylesheet"></head>
<body class="source"><p><a href="${up}index.html">Penstock</a></p>
<h1>$title</h1>
$body
</body></html>
END
}

# Doxygen's search knows names and the beginnings of titles. This adds each word of the headings of
# pages to its list of everything, which is a file for each first letter.
sub add_headings {
  my $site = shift;
  my ($letters) = read_file("$site/search/searchdata.js") =~ /0: "([^"]+)"/;
  my %entries;
  for my $page (grep { !/page-(?:adr|results|changelog)/ } glob("$site/page-*.html"), "$site/index.html") {
    my $text = read_file($page);
    my ($title) = $text =~ m{<div class="title">(.*?)\s*</div>};
    my @headings = (["", $title]);
    while ($text =~ m{<h\d><a class="anchor" id="([^"]+)"></a>\s*(.*?)</h\d>}gs) {
      push @headings, ["#$1", $2 =~ s/<[^>]*>//gr];
    }
    for (@headings) {
      my ($anchor, $heading) = @$_;
      my ($shown, $scope) = map { s/'/\\'/gr } $heading, $title;
      while ($heading =~ /(?<![\w&])(\w[\w.-]{2,})/g) {
        next if $anchor eq "" && $-[0] == 0 || $1 =~ /^(?:and|for|from|its|not|one|the|with|your)$/i;
        my $key = lc(substr($heading, $-[0])) =~ s/[^a-z0-9]/sprintf "_%02x", ord $&/ger;
        my $place = index($letters, substr($key, 0, 1));
        next if $place < 0;
        push @{$entries{$place}}, "['${key}_0',['$shown',['../" . basename($page) . "$anchor',1,'$scope']]]";
      }
    }
  }
  for my $place (keys %entries) {
    my $list = sprintf "$site/search/all_%x.js", $place;
    write_file($list, read_file($list) =~ s/\n\];/",\n" . join(",\n", @{$entries{$place}}) . "\n];"/er);
  }
}

sub finish {
  my $site = shift;
  add_headings($site);
  # The sidebar names members with their namespace.
  for my $list (glob("$site/*.js")) {
    my $text = read_file($list);
    write_file($list, $text) if $text =~ s/\[ "penstock::(?:towers::)?(\w+)"/[ "$1"/g;
  }
  my (%anchors, @links);
  my @pages = map { basename($_) } glob("$site/*.html");
  for (my $i = 0; $i < @pages; ++$i) {  # more are added meanwhile
    my $page = $pages[$i];
    my $text = read_file("$site/$page");
    # Doxygen links to schemes that a text names, and to lists of classes and macros that are private.
    my $changes = $text =~ s{<a href="https?://">(.*?)</a>}{$1}g;
    for my $list (grep { $text !~ /name="$_"/ } qw(nested-classes define-members)) {
      $changes += $text =~ s{<a href="#$list">[^<]*</a> &#124;\n| &#124;\n<a href="#$list">[^<]*</a>}{};
    }
    write_file("$site/$page", $text) if $changes;
    $anchors{$page} = { map { $_ => 1 } $text =~ /\b(?:id|name)="([^"]+)"/g };
    for my $link ($text =~ /<[^>]*?\b(?:href|src|data)="([^"]+)"/g) {
      next if $link =~ m{^(?:[a-z][a-z0-9+.-]*:|//|#$)}i;
      my ($path, $anchor) = $link =~ /^([^#?]*)(?:\?[^#]*)?(?:#(.*))?$/;
      my $target = $path eq "" ? $page : plain_path(dirname($page) . "/$path");
      if (!-e "$site/$target" && $target =~ m{^source/(.*)\.html$} && -e $1) {
        write_source($site, $1);
        push @pages, $target;
      }
      push @links, [$page, $link, $target, $anchor];
    }
  }
  my %dead;
  for (@links) {
    my ($page, $link, $target, $anchor) = @$_;
    next if -e "$site/$target" && (!defined $anchor || $target !~ /\.html$/ || $anchors{$target}{$anchor});
    $dead{"$page: dead link $link\n"} = 1;
  }
  print STDERR sort keys %dead;
  exit(%dead ? 1 : 0);
}

if ($ARGV[0] eq "--finish") {
  finish($ARGV[1]);
} else {
  my $file = $ARGV[0] =~ s{^\Q$root\E/}{}r;
  my $text = read_file($file);
  print $file =~ $is_page ? filter_page($file, $text)
    : $file =~ $is_header ? filter_header($file, $text)
    : $file =~ $is_example ? "/** \@example " . basename($file) . " */\n"  # shown as a whole
    : filter_dox($text);
}
