package explore

import "fmt"

// count records that a cleanup was played where these were chosen.
func (e *Explorer) count(chosen []Choice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range chosen {
		e.choices[c]++
	}
}

// Unplayed names what a table promises and no cleanup was played in: each option
// of each of the album's slots from the given one on, at each status that such a
// slot goes through. It returns how many it looked for. That a combination of
// widths leaves one out, or that no run comes to a status, shows here.
func (e *Explorer) Unplayed(album *Album, from int) (missing []string, promised int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, slot := range album.slots[from:] {
		for _, status := range slot.statuses() {
			for _, option := range slot.Options(status, Wide) {
				promised++
				if e.choices[Choice{slot.Ref, status, option.Name}] == 0 {
					missing = append(missing, fmt.Sprintf("%s, %s: %s", slot.Ref, status, option.Name))
				}
			}
		}
	}
	return missing, promised
}

// Calm names the kinds of weather that have never made a difference.
func (e *Explorer) Calm() (missing []string, promised int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, kind := range kinds() {
		if e.struck[kind] == 0 {
			missing = append(missing, kind)
		}
	}
	return missing, len(kinds())
}
