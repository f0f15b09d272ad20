// A text written for this project, which the smoke preset trains on.
#include "rotary_torch/training/text.h"

namespace rotary_torch {

namespace {

constexpr std::string_view text =
    R"(THE KEEPER OF THE LIGHT

1. The lamp

At the end of the mole stands a tower, and at the top of the tower stands a lamp, and the lamp turns.
It turns once while you count to twelve. It turned before the harbour had a wall, and it turns now.
When the lamp looks at the sea, the sea is white. When the lamp looks at the town, the town is white.
When the lamp looks away, the dark comes back to the same place, as the tide comes back to the same stone.

The keeper of the light was called Mara. Every evening she went up the stairs, one hundred and eight steps,
and every step was like the step before it, but a little higher and a little further round.
"Where are you on the stairs?" the boy would call from below.
"Count the turns," said Mara, "and you will know where I am. One turn of the stair is eighteen steps."

So the boy counted the turns, and he always knew where she was.

2. The song of the wheel

Round goes the wheel and round goes the day,
round goes the water that carries the bay,
slow goes the great wheel and fast goes the small,
and one turn for one is no distance at all.

Turn me a little and turn you the same,
and nothing between us has changed but the name.
Turn me a little and leave you behind,
and how far I wandered is easy to find.

Round goes the wheel and round goes the night,
round goes the shadow and round goes the light,
slow goes the great wheel and fast goes the small,
and he who has both of them can measure it all.

3. The clock in the hall

There was a clock in the hall of the tower. It had a short hand, a long hand, and a thin hand that never rested.
"The thin hand is quick," said the boy, "but after a minute it has forgotten everything.
The short hand is slow, but it still knows whether it is morning. Why does a clock need three hands?"
"Because one hand is never enough," said Mara. "The quick hand tells you what is near. It sees the difference
between one moment and the next. The slow hand tells you what is far. It hardly moves while you look at it,
but it remembers the whole day. With many hands, the quick and the slow, no two moments look the same."

"And if I wind the clock ten minutes on?" asked the boy.
"Then every hand turns by its own part," said Mara, "and the picture is new.
But the time between breakfast and supper is the same as before. You have moved the day, not the distance."

The boy thought about it while the lamp turned twice. Then he wrote it on the wall of the stair, with chalk:
the day may move, the distance stays.

4. The song of the waves

One wave is short and one wave is long,
one wave is weak and the other is strong,
one comes at once and one comes by and by,
and all of them rise, and all of them lie.

The short wave tells of the pebble you threw,
the long wave tells of the storm that blew,
the short wave is gone when you turn your head,
the long wave is there when you go to your bed.

One wave is short and one wave is long,
and both of them sing in the very same song,
and if you would know where the boat is tonight,
count both of the waves by the turn of the light.

5. The boats

There were four boats in the harbour, and they lay on one rope: the Anna, the Berta, the Clara and the Dora.
When the tide turned, the boats turned. The Anna turned first, and the Dora turned last,
but between the Anna and the Berta there was always the same water, and between the Clara and the Dora too.
"I do not need to know where the harbour is," said the fisherman. "I need to know how far it is from boat to boat.
The rope knows that. You may pull the whole rope north, you may pull the whole rope south.
The rope says: one boat, two boats, three boats. It never says north, and it never says south."

"And if there are more boats than the rope was made for?" asked the boy.
"Then we make the turns a little smaller," said the fisherman, "and the boats lie a little closer.
The near boats must keep their distance, or they will knock together in the night.
But the far boats may come nearer, for nobody jumps from the first boat to the last."

The boy went home and wrote on the wall of the stair: leave the quick hands alone, and slow the slow hands down.

6. The storm

In the month of the long nights there came a storm. The short waves broke over the wall and the long waves lifted it.
The wind took the bell from the chapel and the sign from the inn, and the rain put out every lamp in the town.
But the lamp on the tower turned. It turned once while you could count to twelve.

Out on the water there was a boat. There was no star to steer by and no shore to be seen.
"I see a light," said the sailor, "and now I see none. I see a light, and now I see none."
"Count," said the captain. "Count from the light to the light."
"One, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve," said the sailor, "and there it is."
"Twelve is Mara's lamp," said the captain. "Steer to the left of it, and we shall sleep at home tonight."

And they steered to the left of it, and they slept at home that night.

7. The song of the stair

Eighteen steps and you have come round,
eighteen steps from the tower to the ground,
eighteen steps and the window again,
eighteen steps in the wind and the rain.

Who is above me and who is below?
Count me the turns and then I shall know.
Two turns between us are two turns to go,
whether we stand in the sun or the snow.

Eighteen steps and you have come round,
eighteen steps and there is not a sound,
eighteen steps, and the lamp, and the sea,
and as far as from you is the distance from me.

8. The letter

When the boy was grown he went away to see the world, and he wrote a letter to the keeper of the light.

"Dear Mara," he wrote, "I have seen a wheel in the mountains that turns with the river, and a wheel in the city
that turns with the steam. I have seen a wheel of stars that turns in one year, and a wheel of cogs so small
that it turns a hundred times while I write this line. I have asked each of them what time it is, and none of them knew.
But when I asked two of them how long it was since yesterday, they looked at each other and told me at once.
I think of the stair, and the chalk, and the clock in the hall. The day may move, the distance stays.
I am far from the harbour now, but the lamp is as far from me as I am from the lamp. Count the turns."

Mara read the letter at the top of the tower. Then the lamp looked at the sea, and the sea was white,
and the lamp looked at the town, and the town was white, and she wrote her answer by the light of it.

"Dear boy," she wrote, "one hundred and eight steps, and every step like the step before it. The boats lie on the rope.
The clock has its three hands. When you come home, call from below, and I shall tell you where I am."

9. The song of the way home

Round goes the wheel and round goes the year,
what was so far away now it is near,
slow goes the great wheel and fast goes the small,
and one turn for one is no distance at all.

Turn me a little and turn you the same,
and nothing between us has changed but the name.
The day it may move, but the distance will stay,
and home is as far as it was yesterday.

Round goes the lamp and round goes the light,
round goes the harbour and round goes the night,
slow goes the great wheel and fast goes the small,
and he who can count them can come home to all.

10. The new keeper

One evening somebody called from below. "Where are you on the stairs?"
"Count the turns," said Mara, and her voice came down the stair as it had always come,
a little lower and a little further round.
"One turn, two turns, three turns," said the voice below. "You are three turns above me. Shall I come up, or will you come down?"
"It is the same," said Mara, "for the distance does not mind which of us moves. But my knees do mind. Come up."

So he came up, one hundred and eight steps, and there was the lamp, and there was the sea.
They sat by the window, and the lamp turned, and they counted to twelve, and the lamp turned, and they counted to twelve.
"Now it is yours," said Mara. "Keep the quick hand quick and the slow hand slow. Oil the wheel at the new moon.
And if ever you do not know where you are, ask how far it is to the others."

He keeps the light to this day. At the end of the mole stands a tower, and at the top of the tower stands a lamp.
When the lamp looks at the sea, the sea is white. When the lamp looks at the town, the town is white.
It turns once while you count to twelve. It turned before the harbour had a wall, and it turns now.

11. What the children of the harbour say when they skip the rope

One for the tower and two for the stair,
three for the keeper who combs her white hair,
four for the boats on the rope in a row,
five for the winds and the ways that they blow.

Six for the waves that are short and are long,
seven for the wheel and eight for the song,
nine for the letter and ten for the sea,
eleven for you and twelve for me.

Twelve for the lamp when it comes round again,
once in the sunshine and once in the rain,
slow goes the great wheel and fast goes the small,
and one turn for one is no distance at all.
)";

}  // namespace

std::string_view bundled_text() noexcept { return text; }

}  // namespace rotary_torch
