// Command mutants plants faults in the code and reports those that no test
// notices.
//
// There are two kinds. Planted faults are written by hand, one for each promise
// that the tests must keep (a dropped fsync, a delete without its UID); they are
// listed in planted/*.yaml with the tests that must go red. Generated ones are
// every small change of a decision package: a comparison turned, a condition
// negated, a statement left out.
//
// All faults are compiled into one set of test programs, each behind a number
// that an environment variable selects; the programs are built once and run once
// for each fault.
//
// Its invariant: nothing in the tree is changed. The changed files are an overlay
// that the Go tool compiles in their place, so a run that dies leaves nothing
// behind. A planted fault whose text is not found exactly once is an error, not
// a fault that was caught.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// options are what is tried, and how.
type options struct {
	planted, packages, short, survivors, only string
	jobs                                      int
	bounds                                    bounds
	verbose                                   bool
}

func (o *options) bind(flags *flag.FlagSet) {
	flags.StringVar(&o.planted, "planted", "test/mutants/planted", "directory of the lists of planted faults; empty for none")
	flags.StringVar(&o.packages, "generate", "", "comma-separated package directories, or single files, whose every small change is tried")
	flags.StringVar(&o.short, "generate-short", "", "as -generate, and the tests run with -short: for packages with slow tests")
	flags.StringVar(&o.survivors, "survivors", "test/mutants/survivors.yaml", "generated faults that may live, each with its reason")
	flags.StringVar(&o.only, "only", "", "regular expression: try only the faults whose name matches")
	flags.IntVar(&o.jobs, "jobs", 2, "faults tried side by side")
	flags.IntVar(&o.bounds.least, "least", 0, "how many generated faults must be tried, so that none is lost unseen")
	flags.IntVar(&o.bounds.share, "percent", 95, "share of generated faults that must be noticed")
	flags.BoolVar(&o.verbose, "v", false, "say of each fault which test noticed it")
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	o.bind(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.bounds.all = o.only == ""
	faults, err := gather(o.planted, o.packages, o.short, o.only)
	if err != nil {
		return err
	}
	excused, err := readSurvivors(o.survivors)
	if err != nil {
		return err
	}
	verdicts, err := o.try(ctx, faults, stdout)
	if err != nil {
		return err
	}
	return judge(stdout, faults, verdicts, excused, o.bounds)
}

// try tries all faults, and says of each that lived that it did.
func (o *options) try(ctx context.Context, faults []fault, stdout io.Writer) ([]verdict, error) {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	trial := trial{workshop: workshop{dir: dir}, jobs: o.jobs, report: func(f fault, v verdict, by string, took time.Duration) {
		switch {
		case v == lived && ctx.Err() == nil:
			fmt.Fprintf(stdout, "lived: %s%s\n", f.describe(), by)
		case v == killed && o.verbose:
			fmt.Fprintf(stdout, "killed in %s: %s\n       by %s\n", took.Round(time.Millisecond), f.name, by)
		}
	}}
	verdicts, err := trial.run(ctx, faults)
	if ctx.Err() != nil {
		// What was not tried has neither lived nor been noticed.
		return nil, fmt.Errorf("interrupted before every fault was tried: %w", ctx.Err())
	}
	return verdicts, err
}

func gather(planted, packages, short, only string) ([]fault, error) {
	var faults []fault
	if planted != "" {
		list, err := readPlanted(planted)
		if err != nil {
			return nil, err
		}
		faults = append(faults, list...)
	}
	whole, err := generateAll(packages, false)
	if err != nil {
		return nil, err
	}
	quick, err := generateAll(short, true)
	if err != nil {
		return nil, err
	}
	faults = slices.Concat(faults, whole, quick)
	wanted, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("reading -only: %w", err)
	}
	kept := faults[:0]
	for _, f := range faults {
		if wanted.MatchString(f.name) {
			kept = append(kept, f)
		}
	}
	if len(kept) == 0 {
		return nil, errors.New("no fault to try: name packages with -generate, or a directory of lists with -planted")
	}
	return kept, nil
}

// generateAll makes the changes of every place in a comma-separated list.
func generateAll(places string, short bool) (faults []fault, err error) {
	for place := range strings.SplitSeq(places, ",") {
		if place == "" {
			continue
		}
		list, err := generate(place)
		if err != nil {
			return nil, err
		}
		for i := range list {
			list[i].short = short
		}
		faults = append(faults, list...)
	}
	return faults, nil
}

// bounds are what the generated faults are judged by: how many of a hundred must be
// noticed, how many there must be, and whether all were tried.
type bounds struct {
	share, least int
	all          bool
}

// judge prints the closing line and says whether the tests held: every planted
// fault must be caught, of the generated ones the given share, and every one that
// lived must be explained.
func judge(stdout io.Writer, faults []fault, verdicts []verdict, excused map[string]string, want bounds) error {
	var plantedAll, plantedCaught, generatedAll, generatedKilled int
	for i, f := range faults {
		caught := 0
		if verdicts[i] == killed {
			caught = 1
		}
		switch {
		case f.planted:
			plantedAll, plantedCaught = plantedAll+1, plantedCaught+caught
		case verdicts[i] != notViable:
			generatedAll, generatedKilled = generatedAll+1, generatedKilled+caught
		}
	}
	problems := wrong(faults, verdicts, excused, want.all)
	for _, p := range problems {
		fmt.Fprintln(stdout, "problem:", p)
	}
	fmt.Fprintf(stdout, "mutants: planted=%d caught=%d generated=%d killed=%d\n", plantedAll, plantedCaught, generatedAll, generatedKilled)
	switch {
	case plantedCaught < plantedAll:
		return fmt.Errorf("%d planted faults were not caught", plantedAll-plantedCaught)
	case generatedAll < want.least:
		return fmt.Errorf("%d generated faults were tried, fewer than %d", generatedAll, want.least)
	case generatedKilled*100 < generatedAll*want.share:
		return fmt.Errorf("%d of %d generated faults were noticed, fewer than %d %%", generatedKilled, generatedAll, want.share)
	case len(problems) > 0:
		return fmt.Errorf("%d faults prove nothing or are not explained", len(problems))
	}
	return nil
}

// wrong lists what is wrong with the lists: a planted fault that does not compile
// proves nothing; a generated one that lived needs an explanation; and an
// explanation of one that was killed, or where all were tried does not exist, is
// stale.
func wrong(faults []fault, verdicts []verdict, excused map[string]string, all bool) (problems []string) {
	alive := map[string]bool{}
	for i, f := range faults {
		alive[f.name] = verdicts[i] == lived
		switch {
		case f.planted && verdicts[i] == notViable:
			problems = append(problems, f.name+" does not compile, so it proves nothing")
		case !f.planted && verdicts[i] == lived && excused[f.name] == "":
			problems = append(problems, f.name+" lived and is not explained")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(excused)) {
		if living, tried := alive[name]; tried && !living || !tried && all {
			problems = append(problems, name+" is explained, and no such fault lived")
		}
	}
	return problems
}
