# SPDX-License-Identifier: Apache-2.0
# Perl: hashes, a closure, an open file with its position, a regular expression half-way, signals.
use strict;
use warnings;

my %option = (seed => 1, sabotage => "");
while (@ARGV) {
    my $name = shift @ARGV;
    $name =~ s/^--//;
    $option{$name} = shift @ARGV;
}
my $dir = $option{dir} or die "perl_values: needs --dir DIR\n";
my $number = 1;

sub publish {
    my ($name, $text) = @_;
    my $draft = "$dir/$name.$number.draft";
    open(my $file, ">", $draft) or die "$draft: $!";
    print $file $text;
    close $file;
    link($draft, "$dir/$name.$number") or die "$name: $!";
    unlink $draft;
}

sub equal {
    my ($what, $expected, $found) = @_;
    return if $expected eq $found;
    publish("verdict", "FAIL: $what: expected $expected, found $found");
    exit 1;
}

my %words = map { ("word $_" => $_ * $_) } 1 .. 5000;
my $count = 0;
my $counter = sub { return ++$count };
my $signals = 0;
local $SIG{USR1} = sub { $signals++ };
open(my $log, "+>", "$dir/log") or die "log: $!";
my $text = "alpha beta gamma delta epsilon";
my $expected = 0;
my $told = "more";
while (1) {
    pos($text) = 0;
    $text =~ /\w+/g for 1 .. 2;
    syswrite($log, "line $number\n");
    publish("ready", "");
    select(undef, undef, undef, 0.002) until -e "$dir/check.$number";
    open(my $check, "<", "$dir/check.$number") or die "check: $!";
    $told = <$check>;
    close $check;

    sabotaged("hash") and delete $words{"word 77"};
    sabotaged("closure") and $counter->();
    equal("hash size", 5000, scalar keys %words);
    equal("hash value", 77 * 77, $words{"word 77"});
    equal("closure", ++$expected, $counter->());
    $text =~ /\G\s*(\w+)/g;
    equal("match after the position", "gamma", $1);
    equal("position in the log", 7 * $number, sysseek($log, 0, 1));
    kill "USR1", $$;
    equal("signals handled", $number, $signals);
    last if $told !~ /more/;
    publish("verdict", "PASS");
    $number++;
}
publish("verdict", "PASS");
print "PASS\n";

sub sabotaged { return $option{sabotage} eq $_[0] }
