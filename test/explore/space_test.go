package explore_test

import (
	"github.com/holdfast-project/holdfast/test/explore"
)

// pass is one combination of what can have become of the slots, and how many
// crashes of the cleanup follow one another.
type pass struct {
	width   func(slot int) explore.Width
	crashes int
}

// space is how much is combined, and what must come of it. A shrunk space must not
// pass for a proof.
type space struct {
	first, second, historical []pass
	// bases are the ends of first attempts that a second one follows.
	bases int
	// storms are how many worlds of runs, and of resumes, have foul weather.
	storms, laterStorms int
	// interrupted is how many cleanups of each album are cut off at each operation,
	// and twice is 1 where some of these are cut off a second time.
	interrupted, twice int
	want               figures
}

// figures are how large a space was seen to be. All of them are exact: attempts
// draw the same random numbers each time, and a cleanup depends on nothing but its
// disk and its world.
type figures struct {
	// Boundaries are the moments at which a crash was looked at; Images the disks
	// found there, Visible those that the loader can tell apart, and Disks those
	// that crashed cleanups left.
	Boundaries, Images, Visible, Disks int
	// States are the distinct pairs of a disk and a cluster, and Played the
	// distinct pairs of what is read from a disk and a cluster that a cleanup was
	// played on.
	States, Played int
	// Options are the promises of the table, each played.
	Options                    int
	Cleanups, Stormy, Complete int
}

// widths gives the first slots these, and the rest the last of them.
func widths(list ...explore.Width) func(int) explore.Width {
	return func(slot int) explore.Width { return list[min(slot, len(list)-1)] }
}

// before gives what the first attempt left one fate, and what follows it another.
func before(fate, rest explore.Width) func(int) explore.Width {
	return widths(fate, fate, fate, fate, fate, rest)
}

// alone are passes that play every option of each of these slots, beside the first
// option of the others.
func alone(from, to, crashes int) (list []pass) {
	for only := from; only < to; only++ {
		list = append(list, pass{crashes: crashes, width: func(slot int) explore.Width {
			if slot == only {
				return explore.Wide
			}
			return explore.First
		}})
	}
	return list
}

func bounded() space {
	return space{
		first: append(alone(0, 5, 0),
			pass{widths(explore.Thin, explore.Thin, explore.Thin, explore.Thin, explore.Narrow), explore.ToTheEnd}),
		second:     append(alone(5, 10, 0), pass{before(explore.First, explore.Thin), 0}),
		historical: []pass{{before(explore.First, explore.Wide), 1}},
		bases:      1, storms: 8, laterStorms: 1, interrupted: 2, twice: 0,
		want: figures{
			Boundaries: 3765, Images: 915, Visible: 66, Disks: 1073, States: 82451, Played: 16825,
			Options: 496, Cleanups: 18479, Stormy: 1325, Complete: 2766,
		},
	}
}

func whole() space {
	return space{
		first: []pass{
			{widths(explore.Narrow, explore.Narrow, explore.Wide), explore.ToTheEnd},
			{widths(explore.Wide, explore.Wide, explore.Thin), explore.ToTheEnd},
		},
		second: append(alone(5, 10, explore.ToTheEnd),
			pass{before(explore.First, explore.Thin), 1},
			pass{before(explore.Second, explore.Thin), 1},
			pass{before(explore.Third, explore.Thin), 0}),
		historical: []pass{
			{before(explore.First, explore.Wide), explore.ToTheEnd},
			{before(explore.Second, explore.Wide), explore.ToTheEnd},
			{before(explore.Third, explore.Wide), explore.ToTheEnd},
		},
		bases: 13, storms: 1000, laterStorms: 100, interrupted: 60, twice: 1,
		want: figures{
			Boundaries: 15962, Images: 6123, Visible: 486, Disks: 171222, States: 2883200, Played: 1030856,
			Options: 496, Cleanups: 1246995, Stormy: 162045, Complete: 89692,
		},
	}
}
