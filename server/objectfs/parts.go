package objectfs

// layout says where the parts of an object lie: the first ones are short, so that small files need
// little memory, and every so many parts are twice as long as those before, so that the largest
// object that S3 allows fits into [MaxParts].
type layout struct {
	first int64 // the length of the first parts
	most  int64 // no part is longer
}

// each is how many parts have the same length, except that those of the greatest length go on.
const each = 500

// standard is the layout that uploads have. The first parts are as short as S3 allows, since the
// memory of slow uploads is what they have of a part. The longest ones are for files of more than
// 600 GB.
var standard = layout{first: MinPart, most: 256 * MinPart}

// at returns the index of the part that holds an offset.
func (l layout) at(offset int64) int {
	index, length := 0, l.first
	for length < l.most && offset >= each*length {
		offset -= each * length
		index += each
		length *= 2
	}
	return index + int(offset/length)
}

// span returns where a part begins, and its length.
func (l layout) span(index int) (start, length int64) {
	length = l.first
	for length < l.most && index >= each {
		start += each * length
		index -= each
		length *= 2
	}
	return start + int64(index)*length, length
}

// end returns how long an object of the most parts is.
func (l layout) end() int64 {
	start, _ := l.span(MaxParts)
	return start
}
