#!/usr/bin/perl
# Count the lines of a log by level, and its errors by hour.
use strict;
use warnings;

die "usage: summary.pl FILE...\n" unless @ARGV;
my (%level, %hour);
while (my $line = <>) {
    if ($line =~ /^(\d{4}-\d\d-\d\dT\d\d):\d\d:\d\d\S*\s+(DEBUG|INFO|WARN|ERROR)\b/) {
        $level{$2}++;
        $hour{$1}++ if $2 eq 'ERROR';
    } else {
        $level{other}++;
    }
}
printf "%-5s %d\n", $_, $level{$_} for sort keys %level;
print "errors by hour:\n" if %hour;
printf "  %s %d\n", $_, $hour{$_} for sort keys %hour;
