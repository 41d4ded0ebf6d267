package explore

// start is an image and a world that it can be left in.
type start struct {
	image *Image
	world *World
}

// sample takes about so many of the album's thin worlds, spread evenly over all of
// them, each with an image that a cleanup can be played on. It returns how many
// there are: of ten slots far too many to be made.
func (e *Explorer) sample(album *Album, about int) (list []start, of int) {
	type group struct {
		image   *Image
		options [][]Option
		size    int
	}
	var groups []group
	for _, m := range album.moments() {
		options, size := thin(album.slots, m.statuses())
		for _, image := range album.representatives(m) {
			if image.accepted() {
				groups, of = append(groups, group{image, options, size}), of+size
			}
		}
	}
	about = min(about, of)
	for i := range about {
		// In the middle of each of so many equal parts, and then aside, further each
		// time: at equal distances a slot with three options might always show the
		// same one.
		at := (2*i+1)*of/(2*about) + i*7919%(of/about)
		at %= of
		for _, g := range groups {
			if at < g.size {
				list = append(list, start{g.image, e.world(g.options, at)})
				break
			}
			at -= g.size
		}
	}
	return list, of
}

// thin lists the options of each slot, and in how many ways they combine.
func thin(slots []Slot, statuses []Status) (options [][]Option, size int) {
	size = 1
	for i, slot := range slots {
		options = append(options, slot.Options(statuses[i], Thin))
		size *= len(options[i])
	}
	return options, size
}

// world is the n-th combination.
func (e *Explorer) world(options [][]Option, n int) *World {
	w := &World{Cluster: e.Cluster}
	for _, list := range options {
		list[n%len(list)].add(w)
		n /= len(list)
	}
	return w
}
